/* What a trainer is made of: models, data, device, pipeline, and what to call. */
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

/* Faults that a test injects before an action runs; and in a backward that
 * offers gradients to the other replicas, before each offer. */
enum vp_fault {
    VP_FAULT_NONE,
    VP_FAULT_STALL, /* the rank does nothing more, for ever */
    VP_FAULT_DROP,  /* a message is not sent */
    VP_FAULT_ERROR, /* the action fails */
};

typedef enum vp_fault (*vp_fault_fn)(void *ctx, int rank,
                                     const struct vp_action *action);

/* An action that a rank is about to do in training, for observers. */
struct vp_observation {
    int rank;
    const struct vp_action *action;
    int64_t minibatch; /* of the run; REDUCE, UPDATE: the last of the round */
    int64_t version;   /* of the weights it uses; UPDATE: that it writes */
    /* SEND: its number on the link, and the values in host memory. */
    uint64_t message;
    const struct vp_graph *graph;
    const struct vp_boundary *boundary;
    const char *values;
};

/* Called by every rank, on its thread. */
typedef void (*vp_observe_fn)(void *ctx, const struct vp_observation *what);

/* Batches for evaluations in place of those of `eval_data`. Called by ranks of the
 * first stage, on their threads; a batch is copied before the rank's next call. */
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
    const void *at; /* [rows, cols] in memory of the host, during the call */
};

/* Takes logits, with one rank of the last stage in the order of minibatches and
 * rows. Called on the threads of the last stage's ranks, with all rows of a
 * minibatch. If the last stage is in another process than the lead, the lead's
 * `take` is called instead, on the thread that waits for the evaluation, with a
 * part of the rows at a time. */
struct vp_sink {
    void *ctx;
    enum vp_status (*take)(void *ctx, const struct vp_logits *logits,
                           struct vp_err *err);
};

struct vp_world; /* comm/comm.h */

struct vp_train_config {
    const struct vp_graph *graphs; /* one per length bucket; borrowed */
    int n_graphs;
    const struct vp_data *data;      /* NULL: plan.forward_only; borrowed */
    const struct vp_data *eval_data; /* NULL: no evaluation; borrowed */
    const struct vp_feed *feed;      /* NULL: eval_data; borrowed */
    /* NULL: no logits are wanted; the same in all processes. Borrowed. */
    const struct vp_sink *sink;
    const struct vp_backend_ops *backend;
    struct vp_backend_config backend_config; /* of every rank */
    /* The user's number of each rank, for messages and traces; NULL: the
     * same. Borrowed. */
    const int *rank_numbers;
    bool spread; /* ranks may run on other machines: memory of this host that
                    they lack is not refused */
    vp_init_fn init;
    struct vp_optim_config optim;
    struct vp_lr_config lr;
    struct vp_scale_config scale; /* a dynamic one needs bsp */
    uint64_t seed;
    int prefetch;

    struct vp_plan plan; /* how the model lies on the ranks */
    bool clip_per_stage; /* not by the norm of all stages */
    bool fast_sums;      /* over replicas: in the transport's order, not ours */

    /* Where the ranks live; NULL: they are threads of this process. Borrowed. */
    struct vp_world *world;
    size_t memory_limit;            /* bytes per stage; 0: none */
    size_t rebalance_headroom;      /* beyond it, during a move */
    int timeout_ms;                 /* watchdog: the longest wait */
    int swap_delay_us;              /* for tests: see stage_config.h */
    const struct vp_saver *saver;   /* NULL: no copies; borrowed */
    const struct vp_loader *loader; /* NULL: from the start; borrowed */
    /* Takes over from another trainer, see trainer/migrate.h: has neither
     * weights nor data before that. */
    bool takes_over;
    /* Of each rank; they outlive the trainer. NULL: the trainer's own. */
    struct vp_blackbox *const *blackboxes;
    vp_observe_fn observe; /* NULL: nobody looks */
    void *observe_ctx;
    vp_fault_fn fault; /* NULL outside of tests */
    void *fault_ctx;
};

/* How a rank opens its backend. */
struct vp_backend_config vp_train_backend_config(
    const struct vp_train_config *config, int rank);
/* What the stages of a rank need of it; `device` is how the rank opens its
 * backend, and is borrowed. */
struct vp_stage_config vp_train_stage_config(
    const struct vp_train_config *config,
    const struct vp_backend_config *device);

#endif
