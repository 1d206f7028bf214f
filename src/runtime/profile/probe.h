/* A stage that runs alone, to be timed: blocks of a model with the memory,
 * programs and weights that they have in a pipeline. Boundary values, batches
 * and gradients are random numbers from a fixed seed, so that no data is
 * needed; the learning rate is 0. */
#ifndef VP_RUNTIME_PROFILE_PROBE_H
#define VP_RUNTIME_PROFILE_PROBE_H

#include "runtime/profile/stopwatch.h"
#include "runtime/stage/stage.h"
#include "runtime/train_config.h"

/* Maximum number of blocks of a probe, parts of a list, and slots. All parts of
 * a minibatch are laps of one stopwatch. */
enum { VP_PROBE_BLOCKS = 8, VP_PROBE_PARTS = 24, VP_PROBE_SLOTS = 8 };

/* Seconds of one minibatch. */
struct vp_probe_times {
    double list[VP_LIST_COUNT];                    /* the whole list */
    double blocks[VP_LIST_COUNT][VP_PROBE_BLOCKS]; /* per block */
    double update; /* the update of all blocks, with the sums of squares */
};

/* Consecutive calls of a list that belong to one block. */
struct vp_probe_part {
    int first, n; /* calls of the list */
    int block;    /* index within the stage */
};

struct vp_probe {
    const struct vp_backend_ops *ops;
    struct vp_backend_config backend_config;
    struct vp_backend *backend;
    struct vp_stage stage;
    struct vp_probe_part parts[VP_LIST_COUNT][VP_PROBE_PARTS];
    int n_parts[VP_LIST_COUNT];
    int n_slots;     /* minibatches in flight */
    void *gradients; /* copied to DOUT, which backward overwrites */
    struct vp_stopwatch watch;
    int64_t n_run; /* number of minibatches so far */
};

/* Makes a stage of `spec` on the device of `rank` with `n_slots` minibatches in
 * flight, so that results of F are not in the caches when B reads them. Call
 * vp_probe_release() even after an error. */
enum vp_status vp_probe_init(struct vp_probe *probe,
                             const struct vp_train_config *config, int rank,
                             const struct vp_stage_spec *spec, int n_slots,
                             struct vp_err *err);
void vp_probe_release(struct vp_probe *probe);

/* Runs one minibatch through F and an older one through R, B and W. Sets `list`
 * or, with `in_parts`, `blocks` of `out`. One thread at a time; the thread must
 * have called vp_device_attach(). */
enum vp_status vp_probe_run(struct vp_probe *probe, bool in_parts,
                            struct vp_probe_times *out);
/* Runs an update and sets `update` of `out`. */
enum vp_status vp_probe_update(struct vp_probe *probe,
                               struct vp_probe_times *out);

#endif
