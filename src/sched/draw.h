/* Helpers of the two drawers of schedules: terminal chart and SVG. */
#ifndef VP_SCHED_DRAW_H
#define VP_SCHED_DRAW_H

#include "sched/internal.h"

/* Returns the position of `stage` among the stages of `rank`: 0 for the
 * first. */
static inline int vp_draw_chunk(const struct vp_schedule *schedule, int rank,
                                int stage)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    int chunk = 0;

    while (chunk < list->n_stages - 1 && list->stages[chunk] != stage)
        chunk++;
    return chunk;
}

/* Returns the length of the shortest action that takes time: one unit of the
 * picture. */
static inline double vp_draw_unit(const struct vp_schedule *schedule,
                                  const struct vp_timing *timing)
{
    double unit = timing->makespan;

    for (int i = 0; i < schedule->n_actions; i++) {
        double length = timing->spans[i].end - timing->spans[i].start;

        if (vp_action_computes(schedule->actions[i].kind) && length > 0.0 &&
            length < unit)
            unit = length;
    }
    return unit;
}

#endif
