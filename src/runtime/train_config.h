/* Configuration of a trainer: model, data, device, plan, and callbacks. */
#ifndef VP_RUNTIME_TRAIN_CONFIG_H
#define VP_RUNTIME_TRAIN_CONFIG_H

#include "backend/backend.h"
#include "data/data.h"
#include "graph/program.h"
#include "optim/optim.h"
#include "plan/plan.h"
#include "runtime/rank/blackbox.h"
#include "runtime/stage/stage_config.h"
#include "runtime/state.h"

/* Faults that a test injects before an action runs; and, in a backward that
 * passes gradients to other replicas, before each bundle. */
enum vp_fault {
    VP_FAULT_NONE,
    VP_FAULT_STALL, /* the rank hangs for ever */
    VP_FAULT_DROP,  /* a message is not sent */
    VP_FAULT_ERROR, /* the action fails */
};

typedef enum vp_fault (*vp_fault_fn)(void *ctx, int rank,
                                     const struct vp_action *action);

/* An action that a rank is about to run in training, for observers. */
struct vp_observation {
    int rank;
    const struct vp_action *action;
    /* Number in the run; REDUCE, UPDATE: the last of the round. */
    int64_t minibatch;
    int64_t version; /* weight version that it uses; UPDATE: that it writes */
    /* SEND only: number on the link, and the values in host memory. */
    uint64_t message;
    const struct vp_graph *graph;
    const struct vp_boundary *boundary;
    const char *values;
};

/* Called by every rank on its own thread. */
typedef void (*vp_observe_fn)(void *ctx, const struct vp_observation *what);

/* Source of batches for evaluations, in place of `eval_data`. Called on the
 * threads of ranks of stage 0; a batch is copied before the rank's next
 * call. */
struct vp_feed {
    void *ctx;
    enum vp_status (*next)(void *ctx, uint64_t minibatch,
                           const struct vp_batch **out, struct vp_err *err);
};

/* Rows [first, first + rows) of the logits of an evaluated minibatch; see enum
 * vp_output. */
struct vp_logits {
    uint64_t minibatch;
    int bucket;
    enum vp_dtype dtype;
    int64_t first, rows, cols;
    const void *at; /* [rows, cols] in host memory, valid during the call */
};

/* Receives logits. If the last stage has one rank, they arrive in the order of
 * minibatches and rows. Called on the threads of the last stage's ranks with
 * all rows of a minibatch. If the last stage is in another process than the
 * lead, `take` of the lead is called instead, on the thread that waits for the
 * evaluation, with some rows at a time. */
struct vp_sink {
    void *ctx;
    enum vp_status (*take)(void *ctx, const struct vp_logits *logits,
                           struct vp_err *err);
};

struct vp_world; /* comm/comm.h */

struct vp_train_config {
    const struct vp_graph *graphs; /* one per length bucket; borrowed */
    int n_graphs;
    const struct vp_data *data; /* NULL: only if plan.forward_only; borrowed */
    const struct vp_data *eval_data; /* NULL: no evaluation; borrowed */
    /* NULL: batches come from eval_data; borrowed. */
    const struct vp_feed *feed;
    /* NULL: no logits are computed. The same in all processes. Borrowed. */
    const struct vp_sink *sink;
    const struct vp_backend_ops *backend;
    struct vp_backend_config backend_config; /* the same for every rank */
    /* Number of each rank for messages and traces; NULL: its index.
     * Borrowed. */
    const int *rank_numbers;
    /* Ranks may run on other machines: do not check the memory of this host. */
    bool spread;
    vp_init_fn init;
    struct vp_optim_config optim;
    struct vp_lr_config lr;
    /* A dynamic loss scale needs synchronous training. */
    struct vp_scale_config scale;
    uint64_t seed;
    int prefetch;

    struct vp_plan plan; /* placement of the model on the ranks */
    bool clip_per_stage; /* clip by the norm of each stage, not of all stages */
    /* Sum over replicas in the transport's order, not in a fixed order. */
    bool fast_sums;

    /* Processes of the run; NULL: all ranks are threads of this process.
     * Borrowed. */
    struct vp_world *world;
    size_t memory_limit; /* bytes per stage; 0: none */
    /* Bytes per stage beyond memory_limit during a move. */
    size_t rebalance_headroom;
    int timeout_ms;                 /* watchdog: limit of every wait */
    int swap_delay_us;              /* for tests, see stage_config.h */
    const struct vp_saver *saver;   /* NULL: no checkpoints; borrowed */
    const struct vp_loader *loader; /* NULL: a new run; borrowed */
    /* The trainer takes over the state of another one, see trainer/migrate.h:
     * until then it has neither weights nor data. */
    bool takes_over;
    /* Per rank; must outlive the trainer. NULL: the trainer has its own. */
    struct vp_blackbox *const *blackboxes;
    vp_observe_fn observe; /* NULL: no observer */
    void *observe_ctx;
    vp_fault_fn fault; /* NULL outside of tests */
    void *fault_ctx;
};

/* Returns the configuration with which rank `rank` opens its backend. */
struct vp_backend_config vp_train_backend_config(
    const struct vp_train_config *config, int rank);
/* Returns the configuration of a rank's stages. `device` is the result of
 * vp_train_backend_config(); borrowed. */
struct vp_stage_config vp_train_stage_config(
    const struct vp_train_config *config,
    const struct vp_backend_config *device);

#endif
