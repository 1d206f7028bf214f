/* A stage that runs alone, to be timed: blocks of a model with the memory, the
 * programs and the weights that they have in a pipeline. Boundary values, batch
 * and gradients are random numbers from a fixed seed, so that no data is needed;
 * learning rates are 0. */
#ifndef VP_RUNTIME_PROFILE_PROBE_H
#define VP_RUNTIME_PROFILE_PROBE_H

#include "runtime/profile/stopwatch.h"
#include "runtime/stage/stage.h"
#include "runtime/train_config.h"

/* Blocks of a probe, at most, and parts of a list; all parts of a minibatch are
 * laps of one stopwatch. */
enum { VP_PROBE_BLOCKS = 8, VP_PROBE_PARTS = 24, VP_PROBE_SLOTS = 8 };

/* Seconds of one minibatch. */
struct vp_probe_times {
    double list[VP_LIST_COUNT];                    /* as a whole */
    double blocks[VP_LIST_COUNT][VP_PROBE_BLOCKS]; /* block by block */
    double update; /* of all blocks, with the sums of squares */
};

/* Consecutive calls of a list that belong to one block. */
struct vp_probe_part {
    int first, n; /* calls */
    int block;    /* of the stage */
};

struct vp_probe {
    const struct vp_backend_ops *ops;
    struct vp_backend_config backend_config;
    struct vp_backend *backend;
    struct vp_stage stage;
    struct vp_probe_part parts[VP_LIST_COUNT][VP_PROBE_PARTS];
    int n_parts[VP_LIST_COUNT];
    int n_slots;     /* minibatches in flight */
    void *gradients; /* for DOUT, which backward overwrites */
    struct vp_stopwatch watch;
    int64_t n_run; /* minibatches */
};

/* Stage of `spec`, on the device of `rank`, with as many minibatches in flight:
 * what F wrote is not what the caches hold when B reads it. Release it also after
 * an error. */
enum vp_status vp_probe_init(struct vp_probe *probe,
                             const struct vp_train_config *config, int rank,
                             const struct vp_stage_spec *spec, int n_slots,
                             struct vp_err *err);
void vp_probe_release(struct vp_probe *probe);

/* One minibatch through F, an older one through R, B and W, each as a whole or, with `in_parts`, in
 * parts of a block; fills `list` or `blocks`. Called from one thread at a time,
 * which has called vp_device_attach(). */
enum vp_status vp_probe_run(struct vp_probe *probe, bool in_parts,
                            struct vp_probe_times *out);
/* An update; fills `update`. */
enum vp_status vp_probe_update(struct vp_probe *probe,
                               struct vp_probe_times *out);

#endif
