/* Times of a schedule under a table of costs, and what follows from them. */
#include "sched/internal.h"

#include <stdlib.h>

/* Busy time and kept minibatches of one rank. */
static void measure_rank(const struct vp_schedule *schedule, int rank,
                         const struct vp_span *spans, int *kept,
                         struct vp_timing *timing)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    struct vp_rank_times *times = &timing->ranks[rank];
    enum vp_action_kind last = vp_schedule_last_kind(schedule);
    int n_kept = 0;

    for (int i = 0; i < list->n_stages; i++)
        kept[list->stages[i]] = 0;
    for (int i = 0; i < list->n_actions; i++) {
        const struct vp_action *a = &list->actions[i];
        const struct vp_span *span = &spans[a - schedule->actions];

        times->busy += span->end - span->start;
        if (span->end > timing->makespan)
            timing->makespan = span->end;
        if (a->kind == VP_ACTION_F) {
            n_kept++;
            if (++kept[a->stage] > timing->peak_slots[a->stage])
                timing->peak_slots[a->stage] = kept[a->stage];
        }
        if (n_kept > times->peak_slots)
            times->peak_slots = n_kept;
        if (a->kind == last) {
            n_kept--;
            kept[a->stage]--;
        }
    }
}

static enum vp_status measure(const struct vp_schedule *schedule,
                              struct vp_timing *timing)
{
    int *kept = calloc((size_t)schedule->n_stages, sizeof(*kept));
    double busy = 0.0;

    if (!kept)
        return VP_ERR_NOMEM;
    for (int rank = 0; rank < schedule->n_ranks; rank++)
        measure_rank(schedule, rank, timing->spans, kept, timing);
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

enum vp_status vp_simulate(const struct vp_schedule *schedule,
                           const struct vp_sched_costs *costs,
                           struct vp_timing *out, struct vp_err *err)
{
    struct vp_timing timing = { .makespan = 0.0 };
    struct vp_nodes nodes = vp_nodes_make(schedule);
    enum vp_status st = nodes.at ? allocate(schedule, &timing) : VP_ERR_NOMEM;

    if (st == VP_OK)
        st = vp_check_lists(schedule, &nodes, err);
    if (st == VP_OK)
        st = vp_run_lists(schedule, &nodes, costs, timing.spans, err);
    if (st == VP_OK)
        st = measure(schedule, &timing);
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
