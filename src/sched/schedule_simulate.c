/* Simulates a schedule under a table of costs and computes its makespan,
 * bubbles and peaks of memory. */
#include "sched/internal.h"

#include <stdlib.h>

/* Sets kept[stage] to the minibatches in flight at the start of a piece of a
 * stream. Returns their sum. */
static int kept_at_start(const struct vp_schedule *schedule,
                         const struct vp_nodes *nodes, int rank, int *kept)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    enum vp_action_kind last = vp_schedule_last_kind(schedule);
    int sum = 0;

    for (int i = 0; i < list->n_stages; i++) {
        int s = list->stages[i];
        const struct vp_node *node =
            &nodes->at[nodes->first[s] + rank - schedule->stages[s].first_rank];

        kept[s] = node->range[VP_ACTION_F].begin - node->range[last].begin;
        sum += kept[s];
    }
    return sum;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Sums up the busy time and finds the peaks of kept minibatches of one rank. */
static void measure_rank(const struct vp_schedule *schedule, int rank,
                         int *kept, struct vp_timing *timing)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    struct vp_rank_times *times = &timing->ranks[rank];
    enum vp_action_kind last = vp_schedule_last_kind(schedule);
    int n_kept = times->first_slots;

    times->peak_slots = n_kept;
    for (int i = 0; i < list->n_stages; i++)
        timing->peak_slots[list->stages[i]] = larger(
            timing->peak_slots[list->stages[i]], kept[list->stages[i]]);
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];
        const struct vp_span *span = &timing->spans[a - schedule->actions];
        int *peak = &timing->peak_slots[a->stage];

        times->busy += span->end - span->start;
        if (span->end > timing->makespan)
            timing->makespan = span->end;
        if (a->kind == VP_ACTION_F) {
            times->peak_slots = larger(times->peak_slots, ++n_kept);
            *peak = larger(*peak, ++kept[a->stage]);
        }
        if (a->kind == last) {
            n_kept--;
            kept[a->stage]--;
        }
    }
}

static enum vp_status measure(const struct vp_schedule *schedule,
                              const struct vp_nodes *nodes,
                              struct vp_timing *timing)
{
    int *kept = calloc((size_t)schedule->n_stages, sizeof(*kept));
    double busy = 0.0;

    if (!kept)
        return VP_ERR_NOMEM;
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        timing->ranks[rank].first_slots = kept_at_start(schedule, nodes, rank,
                                                        kept);
        measure_rank(schedule, rank, kept, timing);
    }
    free(kept);
    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        struct vp_rank_times *times = &timing->ranks[rank];

        busy += times->busy;
        if (timing->makespan > 0.0)
            times->bubble = 1.0 - times->busy / timing->makespan;
    }
    if (timing->makespan > 0.0)
        timing->bubble = 1.0 - busy / (schedule->n_ranks * timing->makespan);
    return VP_OK;
}

static enum vp_status allocate(const struct vp_schedule *schedule,
                               struct vp_timing *timing)
{
    size_t n_actions = (size_t)schedule->n_actions;

    timing->spans = calloc(n_actions > 0 ? n_actions : 1,
                           sizeof(*timing->spans));
    timing->ranks = calloc((size_t)schedule->n_ranks, sizeof(*timing->ranks));
    timing->peak_slots = calloc((size_t)schedule->n_stages,
                                sizeof(*timing->peak_slots));
    return timing->spans && timing->ranks && timing->peak_slots ? VP_OK
                                                                : VP_ERR_NOMEM;
}

static enum vp_status check_devices(const struct vp_schedule *schedule,
                                    const int *device, struct vp_err *err)
{
    for (int r = 0; device && r < schedule->n_ranks; r++)
        if (device[r] < 0 || device[r] >= schedule->n_ranks)
            return vp_err_set(err, VP_ERR_INVALID,
                              "rank %d is on device %d; number the devices of "
                              "%d ranks from 0 to %d",
                              r, device[r], schedule->n_ranks,
                              schedule->n_ranks - 1);
    return VP_OK;
}

enum vp_status vp_simulate(const struct vp_schedule *schedule,
                           const struct vp_sched_costs *costs,
                           struct vp_timing *out, struct vp_err *err)
{
    struct vp_timing timing = { .makespan = 0.0 };
    struct vp_nodes nodes;
    enum vp_status st;

    VP_TRY(check_devices(schedule, costs->device, err));
    nodes = vp_nodes_make(schedule);
    st = nodes.at ? allocate(schedule, &timing) : VP_ERR_NOMEM;

    if (st == VP_OK)
        st = vp_check_lists(schedule, &nodes, err);
    if (st == VP_OK)
        st = vp_run_lists(schedule, &nodes, costs, timing.spans, err);
    if (st == VP_OK)
        st = measure(schedule, &nodes, &timing);
    vp_nodes_release(&nodes);
    if (st != VP_OK) {
        vp_timing_release(&timing);
        return st == VP_ERR_NOMEM
                   ? vp_err_set(err, st, "schedule: out of memory")
                   : st;
    }
    *out = timing;
    return VP_OK;
}

void vp_timing_release(struct vp_timing *timing)
{
    free(timing->spans);
    free(timing->ranks);
    free(timing->peak_slots);
    *timing = (struct vp_timing){ .makespan = 0.0 };
}

double *vp_costs_field(struct vp_stage_costs *costs, enum vp_action_kind kind)
{
    switch (kind) {
    case VP_ACTION_F:
        return &costs->f;
    case VP_ACTION_R:
        return &costs->r;
    case VP_ACTION_B:
        return &costs->b;
    case VP_ACTION_W:
        return &costs->w;
    case VP_ACTION_REDUCE:
        return &costs->reduce;
    case VP_ACTION_UPDATE:
        return &costs->update;
    default:
        return NULL;
    }
}
