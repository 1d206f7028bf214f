#include "backend/planned.h"

#include "backend/cuda_facts.h"

#include <stdlib.h>
#include <string.h>

static int gpu_n_devices(struct vp_err *why)
{
    vp_err_set(why, VP_ERR_UNSUPPORTED, "the plugin for GPUs is not loaded");
    return 0;
}

static enum vp_status gpu_open(const struct vp_backend_config *config,
                               struct vp_backend **out, struct vp_err *err)
{
    struct vp_device *device;

    if (!config->plan_only)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "device cuda: the plugin for GPUs is not loaded; "
                          "use device: cpu");
    device = calloc(1, sizeof(*device));
    if (!device)
        return vp_err_set(err, VP_ERR_NOMEM, "cuda backend: out of memory");
    *out = (struct vp_backend *)device; /* there is nothing behind it */
    return VP_OK;
}

static void gpu_close(struct vp_backend *backend)
{
    free(backend);
}

static const struct vp_device_ops gpu_device = {
    .host_memory = VP_CUDA_HOST_MEMORY,
};

static const struct vp_backend_ops planned_gpu = {
    .name = "cuda",
    .device = &gpu_device,
    .updates_early = VP_CUDA_UPDATES_EARLY,
    .w_linger = VP_CUDA_W_LINGER,
    .grad_linger = VP_CUDA_GRAD_LINGER,
    .n_devices = gpu_n_devices,
    .open = gpu_open,
    .close = gpu_close,
    .scratch_bytes = vp_cuda_scratch_bytes,
    .staging_bytes = vp_cuda_staging_bytes,
};

const struct vp_backend_ops *vp_backend_planned(const char *name)
{
    static const struct vp_backend_ops *const all[] = { &vp_backend_cpu,
                                                        &planned_gpu };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}
