/* How much slower a stage is while all ranks of a device compute. */
#ifndef VP_RUNTIME_PROFILE_CROWD_H
#define VP_RUNTIME_PROFILE_CROWD_H

#include "runtime/train_config.h"

struct vp_crowd_config {
    const struct vp_train_config *config;
    const struct vp_stage_spec *spec; /* each rank has such a stage */
    int n_ranks;                      /* at least 2 */
    int n_repeats;
};

/* Seconds of forward and backward with `n_ranks` threads at work, each with a
 * backend of its own, over those of one thread alone; medians. */
enum vp_status vp_crowd_measure(const struct vp_crowd_config *config,
                                double *slowdown_out, struct vp_err *err);

#endif
