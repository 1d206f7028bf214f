/* Functions that print the tables of `vpipe plan`. */
#ifndef VP_TOOLS_PLAN_H
#define VP_TOOLS_PLAN_H

#include "run/planning.h"

#include <stdio.h>

/* Prints stages with their blocks, seconds and bytes, then the forecast. */
void plan_print_stages(const struct vp_planning *planning,
                       const struct vp_search_result *result);
/* Prints the plan of every planner beside that of `planner`, which made
 * `result`. */
void plan_print_planners(const struct vp_planning *planning,
                         const struct vp_search_result *result,
                         const char *planner);
/* Prints the reasons for which other schedules were not taken. */
void plan_print_refused(const struct vp_search_result *result);
/* Prints speed against memory. */
void plan_print_dial(const struct vp_planning *planning,
                     const struct vp_dial_point *points, int n);
/* Prints the speed with twice the memory and with twice the link bandwidth. */
void plan_print_more(struct vp_planning *planning,
                     const struct vp_search_result *result);

#endif
