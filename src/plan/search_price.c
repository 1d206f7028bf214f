/* Plans that were found, with their exact bytes and simulated seconds. */
#include "plan/search.h"

#include "plan/trial.h"

#include <stdlib.h>
#include <string.h>

/* ---- Results ------------------------------------------------------------ */

static void *copy(struct vp_arena *arena, const void *from, size_t n_bytes)
{
    void *to = from ? vp_arena_alloc(arena, n_bytes) : NULL;

    if (to)
        memcpy(to, from, n_bytes);
    return to;
}

static int n_ranks_of(const struct vp_plan *plan)
{
    int n = 0;

    for (int s = 0; s < plan->n_stages; s++)
        n += plan->replicas ? plan->replicas[s] : 1;
    return n;
}

/* Copies the arrays; false: memory is exhausted. */
static bool own_plan(struct vp_plan *plan, int n_blocks, struct vp_arena *arena)
{
    size_t n = (size_t)vp_plan_n_stages(plan), p = (size_t)plan->n_stages;
    size_t ranks = (size_t)n_ranks_of(plan), blocks = (size_t)n_blocks;
    struct vp_plan own = *plan;

    own.partition = copy(arena, plan->partition, n * sizeof(int));
    own.recompute_ratio = copy(arena, plan->recompute_ratio,
                               n * sizeof(double));
    own.recompute_sets = copy(arena, plan->recompute_sets,
                              blocks * sizeof(uint64_t));
    own.swap_sets = copy(arena, plan->swap_sets, blocks * sizeof(uint64_t));
    own.swap_ratio = copy(arena, plan->swap_ratio, n * sizeof(double));
    own.swap_buffers = copy(arena, plan->swap_buffers, n * sizeof(int));
    own.replicas = copy(arena, plan->replicas, p * sizeof(int));
    own.depth = copy(arena, plan->depth, p * sizeof(int));
    own.ranks = copy(arena, plan->ranks, ranks * sizeof(int));
    own.devices = copy(arena, plan->devices, ranks * sizeof(int));
    own.edges = copy(arena, plan->edges, n * sizeof(*own.edges));
    own.replica_edges = copy(arena, plan->replica_edges,
                             n * sizeof(*own.replica_edges));
    if (plan->schedule_text)
        own.schedule_text = vp_arena_strdup(arena, plan->schedule_text);
    if ((plan->partition && !own.partition) ||
        (plan->recompute_sets && !own.recompute_sets) ||
        (plan->schedule_text && !own.schedule_text) ||
        (plan->edges && !own.edges) || (plan->devices && !own.devices))
        return false;
    *plan = own;
    return true;
}

static void describe(const struct vp_schedule *schedule,
                     struct vp_search_result *out)
{
    out->n_stages = schedule->n_stages;
    out->n_ranks = schedule->n_ranks;
    for (int s = 0; s < schedule->n_stages; s++) {
        int p = out->plan.n_stages, rank = 0;
        int first = schedule->stages[s].first_rank;

        out->n_slots[s] = schedule->stages[s].n_slots;
        out->n_versions[s] = schedule->stages[s].n_versions;
        for (int i = 0; i < p && first > 0; i++) {
            first -= out->plan.replicas ? out->plan.replicas[i] : 1;
            rank++;
        }
        out->rank[s] = rank;
        out->rank_bytes[rank] += out->prices[s].memory.total;
    }
}

/* Seconds of recomputation, whether an action R or B has them. */
static enum vp_status add_recomputed(const struct vp_search *search,
                                     struct vp_search_result *out,
                                     struct vp_err *err)
{
    const struct vp_graph *graph = &search->work.graphs[0];
    uint64_t *room = calloc((size_t)graph->n_blocks, sizeof(*room));
    int b = 0;

    if (!room)
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    for (int s = 0; s < out->n_stages; s++) {
        const uint64_t *sets = vp_plan_stage_sets(&out->plan, graph, s, room);
        int n = out->plan.partition ? out->plan.partition[s] : graph->n_blocks;

        for (int i = 0; i < n; i++, b++)
            if (sets)
                out->recomputed[s] += vp_cost_recompute(&search->costs, b,
                                                        sets[i]);
    }
    free(room);
    return VP_OK;
}

static enum vp_status price_plan(struct vp_search *search,
                                 const struct vp_schedule *schedule,
                                 struct vp_search_result *out,
                                 struct vp_err *err)
{
    struct vp_plan_costs costs;
    enum vp_status st;

    VP_TRY(
        vp_plan_bytes(search->pricer, &out->plan, schedule, out->prices, err));
    st = vp_plan_costs_make(&search->costs, &out->plan, schedule, out->prices,
                            &costs, err);
    if (st == VP_OK)
        st = vp_plan_forecast_seconds(schedule, &costs, &out->time, err);
    memcpy(out->costs, costs.stages, sizeof(out->costs));
    vp_plan_costs_release(&costs);
    search->n_simulated++;
    describe(schedule, out);
    return st == VP_OK ? add_recomputed(search, out, err) : st;
}

enum vp_status vp_search_price(struct vp_search *search,
                               const struct vp_plan *plan,
                               struct vp_search_result *out, struct vp_err *err)
{
    struct vp_schedule schedule;
    enum vp_status st;

    memset(out, 0, sizeof(*out));
    out->plan = *plan;
    if (out->plan.n_stages < 1)
        out->plan.n_stages = 1;
    if (!own_plan(&out->plan, search->n_blocks, &out->arena)) {
        vp_arena_release(&out->arena);
        return vp_err_set(err, VP_ERR_NOMEM, "planning: out of memory");
    }
    st = vp_plan_make_schedule(&out->plan, &search->work.graphs[0], &schedule,
                               err);
    if (st == VP_OK) {
        st = price_plan(search, &schedule, out, err);
        vp_schedule_release(&schedule);
    }
    if (st != VP_OK)
        vp_search_result_release(out);
    return st;
}

void vp_search_result_release(struct vp_search_result *result)
{
    vp_arena_release(&result->arena);
}

bool vp_search_fits(const struct vp_search_result *result,
                    const int64_t *limits)
{
    const struct vp_plan *plan = &result->plan;
    int rank = 0;

    for (int p = 0; limits && p < plan->n_stages; p++)
        for (int i = 0; i < (plan->replicas ? plan->replicas[p] : 1); i++)
            if (result->rank_bytes[p] > limits[rank++])
                return false;
    return true;
}
