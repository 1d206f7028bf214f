/* plan.json of a run that has moved: the plan in force, and under "history" those
 * before it, the oldest first, each with "until_step". */
#ifndef VP_RUN_PLAN_HISTORY_H
#define VP_RUN_PLAN_HISTORY_H

#include "base/status.h"
#include "plan/plan_json.h"

/* Replaces plan.json in `folder` by `plan`, which is in force after `step`. */
enum vp_status vp_plan_history_add(const char *folder,
                                   const struct vp_plan *plan, int n_blocks,
                                   const struct vp_plan_forecast *forecast,
                                   int64_t step, struct vp_err *err);

#endif
