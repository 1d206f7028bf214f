/* Planning a run and refusing what a run would refuse, without one. */
#ifndef VP_RUN_DRY_RUN_H
#define VP_RUN_DRY_RUN_H

#include "runtime/fit.h"

/* Makes the schedule, prices the stages, checks how every rank would open its
 * device, and that all of it fits. Release with vp_priced_plan_release(), also
 * after a failure. */
enum vp_status vp_dry_run(const struct vp_train_config *train,
                          struct vp_priced_plan *out, struct vp_err *err);

#endif
