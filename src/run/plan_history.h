/* plan.json of a run: the plan in force; under "history" those before it, the oldest
 * first, each with "until_step"; and "moved_at", the step after which the run moved
 * to it, if it is not the plan that the run was started with. */
#ifndef VP_RUN_PLAN_HISTORY_H
#define VP_RUN_PLAN_HISTORY_H

#include "base/status.h"
#include "plan/plan_json.h"

struct vp_plan_record {
    const struct vp_plan *plan;
    int n_blocks;
    const struct vp_plan_forecast *forecast;
    int64_t step; /* after which it is in force */
    bool moved;   /* by a run that goes on; else a run starts or is resumed */
};

/* Replaces plan.json in `folder`. The plan there, if any, goes to the history,
 * unless it is the same plan and the run did not move. */
enum vp_status vp_plan_history_write(const char *folder,
                                     const struct vp_plan_record *record,
                                     struct vp_err *err);

/* Returns true if `text`, that of a plan.json, is a plan that a run moved to;
 * `*step_out` is moved_at. */
bool vp_plan_history_moved(const char *text, int64_t *step_out);

#endif
