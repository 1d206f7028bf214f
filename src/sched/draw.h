/* What the two drawers share. */
#ifndef VP_SCHED_DRAW_H
#define VP_SCHED_DRAW_H

#include "sched/internal.h"

/* Which of its rank's stages an action belongs to: 0 for the first. */
static inline int vp_draw_chunk(const struct vp_schedule *schedule, int rank,
                                int stage)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    int chunk = 0;

    while (chunk < list->n_stages - 1 && list->stages[chunk] != stage)
        chunk++;
    return chunk;
}

/* The shortest box that takes time at all: one unit of the picture. */
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
