/* Input of a search for a plan: what is fixed, what is free, and the limits. */
#ifndef VP_PLAN_SEARCH_INPUT_H
#define VP_PLAN_SEARCH_INPUT_H

#include "plan/plan.h"

/* Upper bound of the schedules that one search tries. */
enum { VP_SEARCH_MAX_VARIANTS = 64 };

/* Arrays are borrowed. */
struct vp_search_input {
    /* The fixed part: n_stages, accumulation_steps, replicas, depth, edges,
     * devices, keep_all and so on; and the schedule, partition and
     * recomputation unless they are free below. */
    const struct vp_plan *base;
    const int64_t *limits; /* bytes of each rank; NULL: no limit */
    bool stream;           /* asynchronous training: choose among streams */
    bool free_schedule, free_partition, free_recompute;
    bool allow_swap; /* blocks may also swap; needs copy rates in the profile */
    bool alike;      /* all slots of a stage make the same choices */
    bool any; /* return the first plan that fits; try no harder if none does */
    /* Plans that are known to be good, for example those for a smaller limit.
     * The result is never slower than any of them that fits. */
    const struct vp_plan *const *known;
    int n_known;
};

#endif
