/* What the files of `vpipe plan` share. */
#ifndef VP_TOOLS_PLAN_H
#define VP_TOOLS_PLAN_H

#include "run/planning.h"

#include <stdio.h>

/* Stages with their blocks, seconds and bytes, then the forecast. */
void plan_print_stages(const struct vp_planning *planning,
                       const struct vp_search_result *result);
/* Every planner beside the one that made `result`. */
void plan_print_planners(const struct vp_planning *planning,
                         const struct vp_search_result *result,
                         const char *planner);
/* Why other schedules were not taken. */
void plan_print_refused(const struct vp_search_result *result);
void plan_print_dial(const struct vp_planning *planning,
                     const struct vp_dial_point *points, int n);
/* What twice the memory and twice the links would bring. */
void plan_print_more(struct vp_planning *planning,
                     const struct vp_search_result *result);

#endif
