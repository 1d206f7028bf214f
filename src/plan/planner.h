/* Planners: this project's search, and those of others to compare with. */
#ifndef VP_PLAN_PLANNER_H
#define VP_PLAN_PLANNER_H

#include "plan/search.h"

/* Ways to make a plan, this search among them. */
struct vp_planner {
    const char *name;
    const char *meaning; /* one line */
    enum vp_status (*make)(struct vp_search *search,
                           const struct vp_search_input *input,
                           struct vp_search_result *out, struct vp_err *err);
};

/* The i-th, NULL after the last. The first is the search. */
const struct vp_planner *vp_planner_at(int i);
const struct vp_planner *vp_planner_find(const char *name);

#endif
