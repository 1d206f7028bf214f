/* The state that a run needs to continue as if it had never stopped, and the
 * interface to save and load it: plain types. */
#ifndef VP_RUNTIME_STATE_H
#define VP_RUNTIME_STATE_H

#include "base/status.h"
#include "optim/optim.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

enum vp_state_kind {
    VP_STATE_WEIGHT, /* the newest version */
    VP_STATE_MOMENT1,
    VP_STATE_MOMENT2,
    /* Asynchronous training: `age` updates before the newest. */
    VP_STATE_VERSION,
};

/* One array of the state. Arrays belong to blocks, not to stages, so that every
 * partition can load them. */
struct vp_state_item {
    const char *name; /* published name of the parameter */
    enum vp_state_kind kind;
    int age;
    int block;
    int64_t rows, cols;
    bool transposed; /* stored as [cols, rows] in files */
};

/* Updates that a block has had. The counts belong to the block: a stage counts
 * its weight versions, and blocks that come from different stages differ. */
struct vp_block_count {
    int64_t updates;   /* updates that were made or skipped */
    int64_t n_skipped; /* updates that were skipped */
};

/* History of a block, for the stage that it joins. */
struct vp_block_state {
    int64_t updates;
    struct vp_scale scale;
    int past;  /* older versions of its weights that are available */
    bool full; /* the run made more than these; false: it is too young */
};

/* Position of a run. */
struct vp_progress {
    int64_t step, minibatch;        /* number of steps and minibatches done */
    int64_t updates[VP_MAX_STAGES]; /* per stage: updates made or skipped */
    /* Asynchronous training: older weight versions that the next minibatches
     * still need, at most the number that a stage keeps. */
    int past[VP_MAX_STAGES];
    struct vp_scale scale[VP_MAX_STAGES];
};

/* Joins blocks to stages: stage s gets the next n_blocks[s] blocks, and uses
 * the weights of lags[s] rounds before. It takes its version count from its
 * first block, and from all of its blocks the longest series of skipped
 * updates. Sets updates, past and scale of `progress`. Returns false if a
 * version that a stage needs is missing: then minibatches start with the newest
 * weights in every stage. */
bool vp_progress_join(const struct vp_block_state *blocks, const int *n_blocks,
                      const int *lags, int n_stages,
                      struct vp_progress *progress);

/* Takes a copy of the state while training continues. After every `every` steps
 * (asynchronous: at the next step that ends a round of all stages) each rank
 * calls begin() and fills the buffers of its items; the report of the step then
 * has `saved` set. Called by several threads at once. */
struct vp_saver {
    void *ctx;
    int64_t every;
    /* Waits until the previous copy has been written. Sets `err` on failure. */
    enum vp_status (*begin)(void *ctx, int64_t step, int timeout_ms,
                            struct vp_err *err);
    float *(*buffer)(void *ctx, int item); /* index as in vp_trainer_state() */
    /* All buffers of this process are filled. NULL: the caller relies on
     * reports. */
    enum vp_status (*filled)(void *ctx, struct vp_err *err);
};

/* Loads arrays of the state. An error makes the creation of the trainer fail.
 * Called by several threads at once. */
struct vp_loader {
    void *ctx;
    struct vp_progress progress;
    /* Per block of the model; NULL: the counts of their stages apply. Borrowed
     * while the trainer is created. */
    const struct vp_block_count *blocks;
    enum vp_status (*load)(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err);
};

#endif
