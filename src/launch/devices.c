#include "launch/devices.h"

#include "backend/plugin.h"

#include <stdlib.h>
#include <unistd.h>

int vp_devices_n_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : (int)n;
}

/* A rank gets its share of the cores of its machine. */
static int count_threads(const struct vp_devices_config *with)
{
    int n = with->config->threads_per_stage;

    if (n == 0)
        n = vp_devices_n_cores() / (with->world
                                        ? vp_world_n_here(with->world)
                                        : vp_config_n_ranks(with->config));
    return n < 1 ? 1 : n;
}

static enum vp_status choose_backend(const struct vp_devices_config *with,
                                     struct vp_train_config *train,
                                     struct vp_err *err)
{
    const struct vp_config *config = with->config;
    struct vp_err why = { "" };

    train->backend = &vp_backend_cpu;
    train->backend_config = (struct vp_backend_config){
        .n_threads = count_threads(with),
        .reference = config->reference_kernels,
        .tf32 = config->precision == VP_PRECISION_TF32,
        .plan_only = with->dry_run,
    };
    if (config->device == VP_DEVICE_CUDA) {
        enum vp_status st = vp_backend_load("cuda", &train->backend, err);

        if (st != VP_OK)
            vp_err_prefix(err, "%s", vp_config_place(config, "device"));
        return st;
    }
    if (config->device == VP_DEVICE_AUTO && !config->reference_kernels &&
        vp_backend_load("cuda", &train->backend, &why) == VP_OK &&
        train->backend->n_devices(&why) > 0)
        return VP_OK;
    train->backend = &vp_backend_cpu;
    if (config->precision == VP_PRECISION_FP32)
        return VP_OK;
    if (config->device == VP_DEVICE_CPU || !why.text[0])
        vp_err_set(&why, VP_ERR_UNSUPPORTED, "no GPU is used");
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'precision': only fp32 runs on a CPU (%s); set "
                      "precision: fp32",
                      vp_config_place(config, "precision"), why.text);
}

/* machines names a device for each rank: host:2 is the third GPU, or the third
 * set of threads_per_stage cores. */
static enum vp_status set_devices(const struct vp_devices_config *with,
                                  struct vp_train_config *train,
                                  int **devices_out, struct vp_err *err)
{
    const struct vp_config *config = with->config;
    int n_threads = train->backend_config.n_threads;
    int n_ranks = vp_config_n_ranks(config);
    bool gpu = !train->backend->host_memory, named;
    int n_devices, *devices;

    named = config->machines.n >= n_ranks;
    if ((!named || with->world) && !gpu)
        return VP_OK; /* processes were put on cores by who started them */
    devices = calloc((size_t)n_ranks, sizeof(*devices));
    if (!devices)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    *devices_out = devices;
    /* A dry run may be for GPUs of elsewhere. */
    n_devices = train->backend->n_devices(NULL);
    n_devices = n_devices < 1 ? 1 : n_devices;
    for (int r = 0; r < n_ranks; r++) {
        devices[r] =
            named ? config->machines.at[vp_config_rank_number(config, r)].device
                  : r % n_devices;
        if (gpu || (devices[r] + 1) * n_threads <= vp_devices_n_cores())
            continue;
        with->notice(with->ctx,
                     "machines names more cores than there are: ranks share "
                     "them");
        return VP_OK;
    }
    train->devices = devices;
    return VP_OK;
}

enum vp_status vp_devices_choose(const struct vp_devices_config *config,
                                 struct vp_train_config *train,
                                 int **devices_out, struct vp_err *err)
{
    *devices_out = NULL;
    VP_TRY(choose_backend(config, train, err));
    return set_devices(config, train, devices_out, err);
}
