/* Finds how messages and sums travel between the ranks of this run. */
#include "runtime/trainer/edges.h"

#include <stdlib.h>

/* Returns true if two stages are in different processes. All ranks of the two
 * are in one process, or none are. */
static bool is_apart(const struct vp_pipeline *pipeline,
                     const struct vp_schedule *schedule, int from, int to)
{
    return pipeline->config->world && to >= 0 && to < schedule->n_stages &&
           vp_world_is_apart(
               pipeline->config->world,
               schedule->stages[from].first_rank * pipeline->n_members,
               schedule->stages[to].first_rank * pipeline->n_members);
}

/* Returns true if each member of group `a` can access the device of the member
 * with its number in group `b`. */
static bool groups_are_direct(const struct vp_train_config *config, int a,
                              int b)
{
    int n = config->graphs[0].n_members;

    for (int t = 0; t < n; t++)
        if (!vp_world_is_direct(config->world, a * n + t, b * n + t))
            return false;
    return true;
}

/* Returns true if messages, or sums over replicas, can go from device to device
 * for all pairs of ranks of two stages. */
static bool is_direct(const struct vp_pipeline *pipeline,
                      const struct vp_schedule *schedule, int from, int to)
{
    const struct vp_schedule_stage *a, *b;

    if (!pipeline->config->world || to < 0 || to >= schedule->n_stages)
        return false;
    a = &schedule->stages[from];
    b = &schedule->stages[to];
    for (int i = 0; i < a->n_replicas; i++)
        for (int j = 0; j < b->n_replicas; j++)
            if ((from != to || i != j) &&
                !groups_are_direct(pipeline->config, a->first_rank + i,
                                   b->first_rank + j))
                return false;
    return true;
}

/* Returns true if a stage uses a tied parameter. */
static bool has_ties(const struct vp_plan *plan, const struct vp_graph *graph,
                     int stage)
{
    int first = 0, end;

    for (int s = 0; plan->partition && s < stage; s++)
        first += plan->partition[s];
    end = plan->partition ? first + plan->partition[stage] : graph->n_blocks;
    for (vp_par par = 0; par < graph->n_params; par++) {
        const struct vp_param *param = &graph->params[par];

        if (param->block >= first && param->block < end &&
            (param->has_copies || param->tied_to != VP_NONE))
            return true;
    }
    return false;
}

static bool rank_has_ties(const struct vp_train_config *config,
                          const struct vp_rank_list *list)
{
    for (int i = 0; i < list->n_stages; i++)
        if (has_ties(&config->plan, &config->graphs[0], list->stages[i]))
            return true;
    return false;
}

/* Sums of tied weights go from device to device if all pairs of ranks that use
 * tied weights can. */
static enum vp_edge_kind find_tie_edge(const struct vp_train_config *config,
                                       const struct vp_schedule *schedule)
{
    if (!config->world)
        return VP_EDGE_LOCAL;
    for (int a = 0; a < schedule->n_ranks; a++)
        for (int b = 0; b < a && rank_has_ties(config, &schedule->ranks[a]);
             b++)
            if (rank_has_ties(config, &schedule->ranks[b]) &&
                !groups_are_direct(config, a, b))
                return VP_EDGE_HOST;
    return VP_EDGE_DEVICE;
}

enum vp_status vp_edges_find(struct vp_pipeline *pipeline,
                             const struct vp_schedule *schedule)
{
    size_t n = (size_t)schedule->n_stages;

    pipeline->edges = calloc(n, sizeof(*pipeline->edges));
    pipeline->replica_edges = calloc(n, sizeof(*pipeline->replica_edges));
    if (!pipeline->edges || !pipeline->replica_edges)
        return VP_ERR_NOMEM;
    pipeline->tie_edge = find_tie_edge(pipeline->config, schedule);
    for (int s = 0; s < schedule->n_stages; s++)
        if (pipeline->config->world && schedule->stages[s].n_replicas > 1)
            pipeline->replica_edges[s] = is_direct(pipeline, schedule, s, s)
                                             ? VP_EDGE_DEVICE
                                             : VP_EDGE_HOST;
    for (int s = 0; s + 1 < schedule->n_stages; s++)
        if (is_apart(pipeline, schedule, s, s + 1))
            pipeline->edges[s] = is_direct(pipeline, schedule, s, s + 1)
                                     ? VP_EDGE_DEVICE
                                     : VP_EDGE_HOST;
    return VP_OK;
}
