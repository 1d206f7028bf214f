/* Exact bytes and simulated seconds of a plan, as the result of a search. */
#include "plan/search.h"

#include "plan/trial.h"

#include <stdlib.h>
#include <string.h>

/* ---- Results ------------------------------------------------------------ */

/* Arena for the copies of a plan's arrays. */
struct copies {
    struct vp_arena *arena;
    bool failed; /* memory is exhausted */
};

static void *copy(struct copies *copies, const void *from, size_t n_bytes)
{
    void *to = from ? vp_arena_alloc(copies->arena, n_bytes) : NULL;

    if (to)
        memcpy(to, from, n_bytes);
    copies->failed |= from && !to;
    return to;
}

static const struct vp_plan_slot *copy_slots(struct copies *copies,
                                             const struct vp_plan *plan,
                                             size_t n_blocks)
{
    size_t n = (size_t)plan->n_slots, n_bytes = n_blocks * sizeof(uint64_t);
    struct vp_plan_slot *slots = copy(copies, n > 0 ? plan->slots : NULL,
                                      n * sizeof(*slots));

    for (size_t i = 0; slots && i < n; i++) {
        slots[i].recompute_sets = copy(copies, slots[i].recompute_sets,
                                       n_bytes);
        slots[i].swap_sets = copy(copies, slots[i].swap_sets, n_bytes);
    }
    return slots;
}

/* Replaces the plan's arrays by copies. Returns false if memory is
 * exhausted. */
static bool own_plan(struct vp_plan *plan, int n_blocks, struct vp_arena *arena)
{
    size_t n = (size_t)vp_plan_n_stages(plan), p = (size_t)plan->n_stages;
    size_t ranks = (size_t)vp_plan_n_ranks(plan), blocks = (size_t)n_blocks;
    struct copies c = { arena, false };

    plan->partition = copy(&c, plan->partition, n * sizeof(int));
    plan->recompute_ratio = copy(&c, plan->recompute_ratio, n * sizeof(double));
    plan->recompute_sets = copy(&c, plan->recompute_sets,
                                blocks * sizeof(uint64_t));
    plan->swap_sets = copy(&c, plan->swap_sets, blocks * sizeof(uint64_t));
    plan->swap_ratio = copy(&c, plan->swap_ratio, n * sizeof(double));
    plan->swap_buffers = copy(&c, plan->swap_buffers, n * sizeof(int));
    plan->slots = copy_slots(&c, plan, blocks);
    plan->replicas = copy(&c, plan->replicas, p * sizeof(int));
    plan->depth = copy(&c, plan->depth, p * sizeof(int));
    plan->ranks = copy(&c, plan->ranks, ranks * sizeof(int));
    plan->devices = copy(&c, plan->devices, ranks * sizeof(int));
    plan->edges = copy(&c, plan->edges, n * sizeof(*plan->edges));
    plan->replica_edges = copy(&c, plan->replica_edges,
                               n * sizeof(*plan->replica_edges));
    if (plan->schedule_text) {
        plan->schedule_text = vp_arena_strdup(arena, plan->schedule_text);
        c.failed |= !plan->schedule_text;
    }
    return !c.failed;
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

/* Returns the seconds to recompute `sets` of the `n` blocks from `first` on. */
static double recomputing(const struct vp_search *search, const uint64_t *sets,
                          int first, int n)
{
    double sum = 0.0;

    for (int i = 0; sets && i < n; i++)
        sum += vp_cost_recompute(&search->costs, first + i, sets[i]);
    return sum;
}

/* Sets the seconds of recomputation, within R or B; averaged over the slots of
 * a stage. */
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
        int k = vp_plan_n_first_slots(&out->plan, b, n, out->n_slots[s]);
        const uint64_t *first = k > 0 ? out->plan.slots->recompute_sets : NULL;
        double share = (double)k / out->n_slots[s];

        out->recomputed[s] = (1.0 - share) * recomputing(search, sets, b, n) +
                             share * recomputing(search,
                                                 first ? first + b : sets, b,
                                                 n);
        b += n;
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

int64_t vp_search_largest_rank(const struct vp_search_result *result)
{
    int64_t most = 0;

    for (int r = 0; r < result->plan.n_stages; r++)
        if (result->rank_bytes[r] > most)
            most = result->rank_bytes[r];
    return most;
}

double vp_search_recomputed(const struct vp_search_result *result)
{
    double work = 0.0, again = 0.0;

    for (int s = 0; s < result->n_stages; s++) {
        work += result->time.stage_busy[s];
        again += result->recomputed[s];
    }
    return work > 0.0 ? again / work : 0.0;
}
