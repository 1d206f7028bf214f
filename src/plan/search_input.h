/* What a search for a plan is asked for. */
#ifndef VP_PLAN_SEARCH_INPUT_H
#define VP_PLAN_SEARCH_INPUT_H

#include "plan/plan.h"

/* Schedules that one search tries. */
enum { VP_SEARCH_MAX_VARIANTS = 64 };

/* Arrays are borrowed. */
struct vp_search_input {
    /* What is not free: n_stages, accumulation_steps, replicas, depth, edges,
     * devices, keep_all and so on, and the schedule, partition and recomputation
     * unless they are free below. */
    const struct vp_plan *base;
    const int64_t *limits; /* bytes of each rank; NULL: no limit */
    bool stream;           /* asp: one of the streams is chosen */
    bool free_schedule, free_partition, free_recompute;
    bool allow_swap; /* swap is one more choice of a block; needs copy rates */
    bool alike;      /* all slots of a stage keep the same */
    bool any;        /* the first plan that fits will do, and none is insisted
                        on: quick */
    /* Plans that are known to be good, of a smaller limit for example: the
     * result is never slower than one of them that fits. */
    const struct vp_plan *const *known;
    int n_known;
};

#endif
