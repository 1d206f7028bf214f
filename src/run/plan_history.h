/* plan.json of a run: the current plan; under "history" the earlier plans,
 * oldest first, each with "until_step"; and "moved_at", the step after which
 * the run moved to the current plan, unless the run was started with it. */
#ifndef VP_RUN_PLAN_HISTORY_H
#define VP_RUN_PLAN_HISTORY_H

#include "base/status.h"
#include "plan/plan_json.h"

struct vp_plan_record {
    const struct vp_plan *plan;
    int n_blocks;
    const struct vp_plan_forecast *forecast;
    int64_t step; /* the plan is in use after this step */
    bool moved;   /* a live run moved to it; false: a run starts or resumes */
};

/* Replaces plan.json in `folder`. The plan in the old file, if any, is moved to
 * the history, unless it is the same plan and the run did not move. */
enum vp_status vp_plan_history_write(const char *folder,
                                     const struct vp_plan_record *record,
                                     struct vp_err *err);

/* Returns true if `text`, the content of a plan.json, is a plan that a run
 * moved to; sets `*step_out` to its moved_at. */
bool vp_plan_history_moved(const char *text, int64_t *step_out);

#endif
