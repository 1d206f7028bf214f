/* Loads the CUDA plugin and opens the devices once, in the background. */
#include "run/warm_up.h"

#include "backend/plugin.h"

#include <pthread.h>
#include <stdlib.h>

struct vp_warm_up {
    const struct vp_config *config;
    bool alone; /* all ranks are in this process */
    pthread_t thread;
};

/* Returns the device of a rank, as set_devices() in devices.c does. */
static int device_of(const struct vp_config *config, int rank, int n_devices)
{
    if (config->machines.n >= vp_config_n_ranks(config))
        return config->machines.at[vp_config_rank_number(config, rank)].device;
    return rank % n_devices;
}

/* Opens and closes each device. The cost of the first opening (its context, the
 * start of libraries) is not paid again. */
static void open_devices(const struct vp_config *config,
                         const struct vp_backend_ops *ops, int n_devices)
{
    for (int r = 0; r < vp_config_n_ranks(config) && r < n_devices; r++) {
        const struct vp_backend_config one = {
            .device = device_of(config, r, n_devices),
            .n_threads = 1,
            .pinned = true,
        };
        struct vp_backend *backend;

        if (vp_backend_open(ops, &one, &backend, NULL) == VP_OK)
            ops->close(backend);
    }
}

static void *thread_main(void *arg)
{
    const struct vp_warm_up *warm_up = arg;
    const struct vp_backend_ops *ops = NULL;
    int n_devices;

    if (vp_backend_load("cuda", &ops, NULL) != VP_OK)
        return NULL;
    n_devices = ops->n_devices(NULL);
    if (n_devices > 0 && warm_up->alone)
        open_devices(warm_up->config, ops, n_devices);
    return NULL;
}

struct vp_warm_up *vp_warm_up_begin(const struct vp_config *config,
                                    const struct vp_world *world)
{
    struct vp_warm_up *warm_up;

    if (config->device == VP_DEVICE_KIND_CPU || config->reference_kernels)
        return NULL;
    warm_up = malloc(sizeof(*warm_up));
    if (!warm_up)
        return NULL;
    *warm_up = (struct vp_warm_up){ .config = config, .alone = !world };
    if (pthread_create(&warm_up->thread, NULL, thread_main, warm_up) != 0) {
        free(warm_up);
        return NULL;
    }
    return warm_up;
}

void vp_warm_up_end(struct vp_warm_up *warm_up)
{
    if (!warm_up)
        return;
    pthread_join(warm_up->thread, NULL);
    free(warm_up);
}
