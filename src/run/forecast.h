/* What a planned run will look like, stage by stage. */
#ifndef VP_RUN_FORECAST_H
#define VP_RUN_FORECAST_H

#include "plan/price.h"
#include "run/summary.h"
#include "runtime/train_config.h"

/* Fills `stages` and the part of `summary` that they and the schedule decide;
 * `summary` borrows `stages`, and these borrow `prices`. */
enum vp_status vp_forecast_make(const struct vp_train_config *train,
                                const struct vp_schedule *schedule,
                                const struct vp_stage_price *prices,
                                struct vp_run_stage stages[VP_MAX_STAGES],
                                struct vp_run_summary *summary,
                                struct vp_err *err);

#endif
