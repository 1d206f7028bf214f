/* Cuts the model into stages of equal work by FLOPs. */
#include "config/resolve_balance.h"

#include "plan/balance.h"
#include "sched/schedule.h"

#include <stdlib.h>

static enum vp_status no_memory(const struct vp_config *config,
                                struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "%s: out of memory; close other programs", config->path);
}

static double forward_flops(const struct vp_graph *graph, int block)
{
    int first = graph->blocks[block].first_op;
    double flops = 0.0;

    for (int i = first; i < first + graph->blocks[block].n_ops; i++)
        flops += vp_op_flops(graph, &graph->ops[i], VP_PHASE_F);
    return flops;
}

/* Fills costs[stage][block], in FLOPs per rank: replicas share the minibatches
 * of their stage. */
static void fill_costs(const struct vp_config *config,
                       const struct vp_graph *graph, double *costs)
{
    for (int i = 0; i < graph->n_blocks; i++) {
        double all = vp_graph_flops(graph, i, 1);
        double again = forward_flops(graph, i);

        for (int s = 0; s < vp_config_n_stages(config); s++) {
            double ratio = config->recompute_ratio.n > 0
                               ? config->recompute_ratio.at[s]
                               : 0.0;
            /* With chunks all stages have the same number of replicas. */
            int at = config->chunks > 1 ? 0 : s;
            int n_ranks = config->replicas.n > 0 ? config->replicas.at[at] : 1;

            costs[s * graph->n_blocks + i] = (all + ratio * again) / n_ranks;
        }
    }
}

enum vp_status vp_resolve_balance(const struct vp_config *config,
                                  const struct vp_graph *graph,
                                  int *partition_out, struct vp_err *err)
{
    const struct vp_sched_config sched = {
        .name = vp_generator_at(config->schedule)->name,
        .n_stages = config->stages,
        .n_chunks = config->chunks,
        .v_shape = config->schedule_v,
    };
    int n = vp_config_n_stages(config), n_replicas;
    double *costs = calloc((size_t)n * (size_t)graph->n_blocks, sizeof(*costs));
    int ranks[VP_MAX_STAGES];
    enum vp_status st = VP_ERR_NOMEM;

    for (int s = 0; s < n; s++)
        vp_sched_place(&sched, s, &ranks[s], &n_replicas);
    if (costs) {
        fill_costs(config, graph, costs);
        st = config->chunks > 1
                 ? vp_plan_balance_ranks(costs, graph->n_blocks, n, ranks,
                                         config->stages, partition_out)
                 : vp_plan_balance(costs, graph->n_blocks, n, partition_out);
    }
    free(costs);
    return st == VP_OK ? VP_OK : no_memory(config, err);
}
