/* Planners: the search of this project, and simpler or published planners to
 * compare it with. */
#ifndef VP_PLAN_PLANNER_H
#define VP_PLAN_PLANNER_H

#include "plan/search.h"

/* One way to make a plan. */
struct vp_planner {
    const char *name;
    const char *meaning; /* one line for --help and reports */
    enum vp_status (*make)(struct vp_search *search,
                           const struct vp_search_input *input,
                           struct vp_search_result *out, struct vp_err *err);
};

/* Returns planner `i`, NULL after the last. Planner 0 is the search. */
const struct vp_planner *vp_planner_at(int i);
/* Returns NULL if there is no planner with this name. */
const struct vp_planner *vp_planner_find(const char *name);

#endif
