/* What a run must keep to go on as if it had never stopped, and how it is saved
 * and loaded: plain types. */
#ifndef VP_RUNTIME_STATE_H
#define VP_RUNTIME_STATE_H

#include "base/status.h"
#include "optim/optim.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

enum vp_state_kind {
    VP_STATE_WEIGHT, /* the newest */
    VP_STATE_MOMENT1,
    VP_STATE_MOMENT2,
    VP_STATE_VERSION, /* asp: `age` updates before the newest */
};

/* One array of what a run must keep to go on as if it had never stopped. Arrays
 * belong to blocks, never to stages: any partition can take them over. */
struct vp_state_item {
    const char *name; /* of the parameter, as published */
    enum vp_state_kind kind;
    int age;
    int block;
    int64_t rows, cols;
    bool transposed; /* files hold [cols, rows] */
};

/* Updates that a block has had. The counts go with the block: those of a stage
 * count its weight versions, and blocks that come from several stages differ. */
struct vp_block_count {
    int64_t updates;   /* made or skipped */
    int64_t n_skipped; /* of them */
};

/* What a block brings to the stage that it becomes part of. */
struct vp_block_state {
    int64_t updates;
    struct vp_scale scale;
    int past;  /* older versions of its weights that are there */
    bool full; /* the run had more of them */
};

/* Where a run stands. */
struct vp_progress {
    int64_t step, minibatch;        /* done */
    int64_t updates[VP_MAX_STAGES]; /* of each stage, done or skipped */
    /* asp: rounds whose weight versions the next minibatches still need, at
     * most the number of older versions that a stage keeps. */
    int past[VP_MAX_STAGES];
    struct vp_scale scale[VP_MAX_STAGES];
};

/* Joins blocks to stages: stage s gets the next n_blocks[s] of them, and runs on
 * the weights of lags[s] rounds before. It counts versions as its first block
 * does; of the skipped updates in a row, it goes on with the most. Fills updates,
 * past and scale of `progress`. Returns false if versions that a stage needs are
 * not there: then minibatches start on the newest weights everywhere. */
bool vp_progress_join(const struct vp_block_state *blocks, const int *n_blocks,
                      const int *lags, int n_stages,
                      struct vp_progress *progress);

/* Takes a copy of the state while training goes on: after every `every` steps
 * (asp: at the next one that ends a round of all stages) each rank asks for
 * begin() and fills the buffers of its items. Then the report of the step says
 * `saved`. Called by several threads at once. */
struct vp_saver {
    void *ctx;
    int64_t every;
    /* Waits until the copy before is used up; text for an error. */
    enum vp_status (*begin)(void *ctx, int64_t step, int timeout_ms,
                            struct vp_err *err);
    float *(*buffer)(void *ctx, int item); /* index as in vp_trainer_state() */
    /* All buffers of this process are filled. NULL: reports tell. */
    enum vp_status (*filled)(void *ctx, struct vp_err *err);
};

/* Gives back an array; an error ends the creation of the trainer. Called by
 * several threads at once. */
struct vp_loader {
    void *ctx;
    struct vp_progress progress;
    /* Per block of the model; NULL: the counts of their stages. Borrowed while
     * the trainer is created. */
    const struct vp_block_count *blocks;
    enum vp_status (*load)(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err);
};

#endif
