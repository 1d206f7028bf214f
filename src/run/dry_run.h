/* Plans a run without running it, and refuses all that a run would refuse. */
#ifndef VP_RUN_DRY_RUN_H
#define VP_RUN_DRY_RUN_H

#include "runtime/fit.h"

/* Makes the schedule, prices the stages, checks that each rank could open its
 * device, and that everything fits. To be released with
 * vp_priced_plan_release(), also after an error. */
enum vp_status vp_dry_run(const struct vp_train_config *train,
                          struct vp_priced_plan *out, struct vp_err *err);

#endif
