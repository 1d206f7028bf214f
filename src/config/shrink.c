/* Writes a configuration for the hosts that are left of a job. */
#include "config/shrink.h"

#include <stdlib.h>

static double largest(const struct vp_real_list *list)
{
    double most = 0.0;

    for (int i = 0; i < list->n; i++)
        most = list->at[i] > most ? list->at[i] : most;
    return most;
}

/* Replaces a list by `n` copies of its largest entry; an empty list stays
 * empty. */
static void stretch(struct vp_real_list *list, int n, double *ratios)
{
    double ratio = largest(list);

    for (int s = 0; s < n; s++)
        ratios[s] = ratio;
    if (list->n > 0)
        *list = (struct vp_real_list){ .at = ratios, .n = n };
}

/* Sets the number of stages to `n` and drops all lists with an entry per stage
 * or rank. All stages recompute and swap the largest share of any stage before.
 * `ratios` has room for two entries per stage. */
static void cut_anew(struct vp_config *config, int n, double *ratios)
{
    int n_stages = n * config->chunks;

    stretch(&config->recompute_ratio, n_stages, ratios);
    stretch(&config->swap_ratio, n_stages, ratios + n_stages);
    config->stages = n;
    config->partition = (struct vp_int_list){ 0 };
    config->replicas = (struct vp_int_list){ 0 };
    config->ranks = (struct vp_int_list){ 0 };
    config->warmup_depths = (struct vp_int_list){ 0 };
    config->placement = NULL;
    config->schedule_file = NULL;
    config->schedule_text = NULL;
    config->plan_file = NULL;
    config->recompute_sets = NULL;
    if (config->distributed_backend != VP_TRANSPORT_NCCL)
        config->distributed_backend = VP_TRANSPORT_MPI;
}

enum vp_status vp_shrink(const struct vp_config *config, vp_lost_fn lost,
                         void *ctx, const char *path, int *n_out,
                         struct vp_err *err)
{
    size_t n = (size_t)config->machines.n;
    struct vp_machine *left = calloc(n + 1, sizeof(*left));
    double *ratios = calloc(2 * (n + 1) * (size_t)config->chunks,
                            sizeof(*ratios));
    struct vp_config small = *config;
    enum vp_status st;
    int n_left = 0;

    for (size_t i = 0; left && i < n; i++)
        if (!lost(ctx, config->machines.at[i].host))
            left[n_left++] = config->machines.at[i];
    if (!left || !ratios) {
        st = vp_err_set(err, VP_ERR_NOMEM, "restarting: out of memory");
    } else if (n_left < config->mp_size) {
        st = vp_err_set(err, VP_ERR_IO,
                        n_left == 0 ? "no host of machines is left"
                                    : "fewer hosts of machines are left than a "
                                      "tensor-parallel group has ranks");
    } else {
        n_left -= n_left % config->mp_size; /* groups are kept whole */
        small.machines = (struct vp_machine_list){ left, n_left };
        cut_anew(&small, n_left / config->mp_size, ratios);
        st = vp_config_write(&small, path, err);
    }
    *n_out = n_left;
    free(left);
    free(ratios);
    return st;
}
