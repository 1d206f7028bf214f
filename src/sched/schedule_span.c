/* The bubble as papers count it: the idle share of the longest rank between its
 * first and its last action. */
#include "sched/internal.h"

double vp_timing_span(const struct vp_schedule *schedule,
                      const struct vp_timing *timing)
{
    double longest = 0.0, bubble = 0.0;

    for (int rank = 0; rank < schedule->n_ranks; rank++) {
        const struct vp_rank_list *list = &schedule->ranks[rank];
        double begin = timing->makespan, end = 0.0, work = 0.0;

        for (int i = 0; i < list->n_actions; i++) {
            const struct vp_action *a = &list->actions[i];
            const struct vp_span *span = &timing->spans[a - schedule->actions];

            if (!vp_action_computes(a->kind))
                continue;
            begin = span->start < begin ? span->start : begin;
            end = span->end > end ? span->end : end;
            work += span->end - span->start;
        }
        if (end - begin > longest) {
            longest = end - begin;
            bubble = 1.0 - work / longest;
        }
    }
    return bubble;
}
