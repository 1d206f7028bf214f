/* Measures the time of a rank's stage while several ranks compute. */
#ifndef VP_RUNTIME_PROFILE_CROWD_H
#define VP_RUNTIME_PROFILE_CROWD_H

#include "runtime/train_config.h"

struct vp_crowd_config {
    const struct vp_train_config *config;
    const struct vp_stage_spec *spec; /* the stage that every rank has */
    int n_ranks;                      /* at least 2 */
    int n_repeats;
};

/* Seconds per minibatch, and per update: medians. */
struct vp_crowd_times {
    double f, b, update; /* b: the list B, with W unless it is split */
};

/* Times the stage of the first rank, with several minibatches in flight and an
 * update every few minibatches: alone, and while `n_ranks` threads, each with
 * its own backend, do the same. */
enum vp_status vp_crowd_measure(const struct vp_crowd_config *config,
                                struct vp_crowd_times *alone_out,
                                struct vp_crowd_times *together_out,
                                struct vp_err *err);

#endif
