/* What the stages of several ranks take while all of them compute. */
#ifndef VP_RUNTIME_PROFILE_CROWD_H
#define VP_RUNTIME_PROFILE_CROWD_H

#include "runtime/train_config.h"

struct vp_crowd_config {
    const struct vp_train_config *config;
    const struct vp_stage_spec *spec; /* each rank has such a stage */
    int n_ranks;                      /* at least 2 */
    int n_repeats;
};

/* Seconds of a minibatch, and of an update; medians. */
struct vp_crowd_times {
    double f, b, update; /* b: the list B, with W unless they are apart */
};

/* Times the stage of the first rank, with several minibatches in flight and an
 * update now and then: alone, and while `n_ranks` threads, each with a backend of
 * its own, do the same. */
enum vp_status vp_crowd_measure(const struct vp_crowd_config *config,
                                struct vp_crowd_times *alone_out,
                                struct vp_crowd_times *together_out,
                                struct vp_err *err);

#endif
