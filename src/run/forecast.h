/* Forecast of a planned run: work, memory and slots per stage, and the
 * bubble. */
#ifndef VP_RUN_FORECAST_H
#define VP_RUN_FORECAST_H

#include "plan/price.h"
#include "run/summary.h"
#include "runtime/train_config.h"

/* Fills `stages`, and the fields of `summary` that follow from the stages and
 * the schedule. `summary` borrows `stages`, and `stages` borrow `prices`. */
enum vp_status vp_forecast_make(const struct vp_train_config *train,
                                const struct vp_schedule *schedule,
                                const struct vp_stage_price *prices,
                                struct vp_run_stage stages[VP_MAX_STAGES],
                                struct vp_run_summary *summary,
                                struct vp_err *err);

#endif
