#include "run/devices.h"

#include "backend/planned.h"
#include "backend/plugin.h"
#include "config/hosts.h"

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

/* Plans for the GPU of another machine. `why`: the reason that this one has
 * none, or no plugin (NULL) for it. */
static void lack_gpu(const struct vp_devices_config *with,
                     const struct vp_backend_ops *plugin,
                     struct vp_train_config *train, const struct vp_err *why)
{
    with->missing->gpu = true;
    vp_missing_add(with->missing, "a GPU (%s)", why->text);
    train->backend = plugin ? plugin : vp_backend_planned("cuda");
}

/* device: cuda. */
static enum vp_status load_gpu(const struct vp_devices_config *with,
                               struct vp_train_config *train,
                               struct vp_err *err)
{
    struct vp_err why = { .text = "" };
    const struct vp_backend_ops *plugin = NULL;
    enum vp_status st = vp_backend_load("cuda", &plugin, &why);

    if (with->missing && (st != VP_OK || plugin->n_devices(&why) == 0)) {
        lack_gpu(with, plugin, train, &why);
        return VP_OK;
    }
    if (st != VP_OK)
        return vp_err_set(err, st, "%s: %s",
                          vp_config_place(with->config, "device"), why.text);
    train->backend = plugin;
    return VP_OK;
}

static enum vp_status choose_backend(const struct vp_devices_config *with,
                                     struct vp_train_config *train,
                                     struct vp_err *err)
{
    const struct vp_config *config = with->config;
    bool for_cpu = config->precision == VP_PRECISION_FP32 ||
                   config->precision == VP_PRECISION_BF16;
    struct vp_err why = { .text = "" };

    train->backend = &vp_backend_cpu;
    train->backend_config = (struct vp_backend_config){
        .n_threads = count_threads(with),
        .reference = config->reference_kernels,
        .tf32 = config->precision == VP_PRECISION_TF32,
        .plan_only = with->dry_run,
    };
    if (config->device == VP_DEVICE_KIND_CUDA)
        return load_gpu(with, train, err);
    if (config->device == VP_DEVICE_KIND_AUTO && !config->reference_kernels) {
        const struct vp_backend_ops *plugin = NULL;

        if (vp_backend_load("cuda", &plugin, &why) == VP_OK &&
            plugin->n_devices(&why) > 0) {
            train->backend = plugin;
            return VP_OK;
        }
        if (with->missing && !for_cpu) {
            lack_gpu(with, plugin, train, &why);
            return VP_OK;
        }
    }
    if (for_cpu)
        return VP_OK;
    if (config->device == VP_DEVICE_KIND_CPU || !why.text[0])
        vp_err_set(&why, VP_ERR_UNSUPPORTED, "no GPU is used");
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: key 'precision': only fp32 and bf16 run on a CPU "
                      "(%s); set precision: bf16",
                      vp_config_place(config, "precision"), why.text);
}

static bool is_new(const int *devices, int r)
{
    for (int i = 0; i < r; i++)
        if (devices[i] == devices[r])
            return false;
    return true;
}

/* Opens the devices as a run would: one that is not there, is too old or may not
 * be used is lacking. */
static void try_devices(const struct vp_devices_config *with,
                        const struct vp_train_config *train, const int *devices)
{
    struct vp_backend_config one = train->backend_config;
    struct vp_backend *backend;
    struct vp_err why = { .text = "" };

    if (with->missing->gpu || vp_hosts_may_be_elsewhere(with->config))
        return;
    one.plan_only = false;
    one.pinned = true;
    for (int r = 0; r < vp_config_n_ranks(with->config); r++) {
        one.device = devices[r];
        if (!is_new(devices, r))
            continue;
        if (vp_backend_open(train->backend, &one, &backend, &why) != VP_OK) {
            vp_missing_add(with->missing, "device %d (%s)", one.device,
                           why.text);
            return;
        }
        train->backend->close(backend);
    }
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
    bool gpu = !train->backend->device->host_memory, named;
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
    if (with->missing)
        try_devices(with, train, devices);
    if (gpu || !with->missing) /* a plan for elsewhere takes no cores here */
        train->plan.devices = devices;
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
