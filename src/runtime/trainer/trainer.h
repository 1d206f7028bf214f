/* Training as a sequence of updates. A trainer owns the schedule, the ranks
 * that walk its action lists, and their memory. One stage on one rank is the
 * smallest pipeline, and runs the same code. */
#ifndef VP_RUNTIME_TRAINER_TRAINER_H
#define VP_RUNTIME_TRAINER_TRAINER_H

#include "backend/backend.h"
#include "data/data.h"
#include "graph/program.h"
#include "optim/optim.h"
#include "runtime/rank/box.h"
#include "sched/schedule.h"
#include "trace/trace.h"

#include <math.h>
#include <signal.h>

#define VP_MAX_STAGES 64

/* Bytes of one stage: what was planned is what is allocated. */
struct vp_memory {
    int64_t weights; /* all versions */
    int64_t gradients;
    int64_t moments;     /* and the master beside weights of 16 bits */
    int64_t activations; /* slots, and the working set of recomputation */
    int64_t boundary;    /* buffers for messages that arrive */
    int64_t work;        /* temporaries inside a list */
    int64_t total;
};

/* The parts that are not 0: "weights 4 MiB, gradients 976 KiB". */
enum { VP_MEMORY_TEXT = 256 };
void vp_memory_text(const struct vp_memory *m, char out[VP_MEMORY_TEXT]);

/* The initial value of a parameter. */
typedef void (*vp_init_fn)(const struct vp_graph *graph, vp_par par,
                           uint64_t seed, float *out);

/* ---- State -------------------------------------------------------------- */

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

/* Where a run stands. */
struct vp_progress {
    int64_t step, minibatch;        /* done */
    int64_t updates[VP_MAX_STAGES]; /* of each stage, done or skipped */
    /* asp: rounds whose weight versions the next minibatches still need, at
     * most the number of older versions that a stage keeps. */
    int past[VP_MAX_STAGES];
    struct vp_scale scale[VP_MAX_STAGES];
};

/* Takes a copy of the state while training goes on: after every `every` steps
 * (asp: at the next one that ends a round of all stages) each rank asks for
 * begin() and fills the rooms of its items. Then the report of the step says
 * `saved`. Called by several threads at once. */
struct vp_saver {
    void *ctx;
    int64_t every;
    /* Waits until the copy before is used up; text for an error. */
    enum vp_status (*begin)(void *ctx, int64_t step, int timeout_ms,
                            struct vp_err *err);
    float *(*room)(void *ctx, int item); /* index as in vp_trainer_state() */
    /* All rooms of this process are filled. NULL: reports tell. */
    enum vp_status (*filled)(void *ctx, struct vp_err *err);
};

/* Gives back an array; an error ends the creation of the trainer. Called by
 * several threads at once. */
struct vp_loader {
    void *ctx;
    struct vp_progress progress;
    enum vp_status (*load)(void *ctx, const struct vp_state_item *item,
                           float *out, struct vp_err *err);
};

/* ---- Configuration ------------------------------------------------------ */

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

/* An action that a rank is about to do in training, for whoever looks inside. */
struct vp_observation {
    int rank;
    const struct vp_action *action;
    int64_t minibatch; /* of the run; REDUCE, UPDATE: the last of the round */
    int64_t version;   /* of the weights it uses; UPDATE: that it writes */
    /* SEND: its number on the link, and the values in host memory. */
    uint64_t message;
    const struct vp_graph *graph;
    const struct vp_packet *packet;
    const char *values;
};

/* Called by every rank, on its thread. */
typedef void (*vp_observe_fn)(void *ctx, const struct vp_observation *what);

struct vp_world; /* comm/comm.h */

struct vp_train_config {
    const struct vp_graph *graphs; /* one per length bucket; borrowed */
    int n_graphs;
    const struct vp_data *data;      /* borrowed */
    const struct vp_data *eval_data; /* NULL: no evaluation; borrowed */
    const struct vp_backend_ops *backend;
    struct vp_backend_config backend_config; /* of every rank */
    const int *devices; /* of each rank, which is pinned there; NULL: any */
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

    /* The pipeline. Arrays have an entry per stage and are borrowed. */
    const char *schedule;          /* generator; NULL: "1f1b" */
    int n_stages;                  /* 0: 1 */
    int n_chunks;                  /* stages per rank; 0: 1 */
    const int *partition;          /* blocks; needed with several stages */
    const double *recompute_ratio; /* NULL: nothing is recomputed */
    bool keep_all;                 /* nor made again by kernels of B */
    const int *replicas;           /* NULL: one rank per stage */
    const int *depth;              /* warm-up; NULL: by the number of ranks */
    bool early_recompute;          /* before the gradient arrives */
    bool clip_per_stage;           /* not by the norm of all stages */
    int accumulation_steps;        /* bsp: minibatches per update */
    bool fast_sums; /* over replicas: in the transport's order, not ours */
    bool compress;  /* floats travel between stages as BF16 */
    int64_t bundle_bytes; /* of gradients that replicas add at once; 0: 2 MB */

    /* Where the ranks live; NULL: they are threads of this process. Borrowed. */
    struct vp_world *world;
    size_t memory_limit;            /* bytes per stage; 0: none */
    int timeout_ms;                 /* watchdog: the longest wait */
    const struct vp_saver *saver;   /* NULL: no copies; borrowed */
    const struct vp_loader *loader; /* NULL: from the start; borrowed */
    struct vp_box *const *boxes;    /* of each rank; they outlive the trainer.
                                       NULL: the trainer's own. See box.h */
    vp_observe_fn observe;          /* NULL: nobody looks */
    void *observe_ctx;
    vp_fault_fn fault; /* NULL outside of tests */
    void *fault_ctx;
};

/* Messages in one direction. */
struct vp_way_stats {
    int64_t receive_ns, send_ns; /* waiting, as below */
    int64_t bytes_sent, bytes_received;
    int64_t n_sent, n_received;
};

/* Sums over a run so far, of one stage (all replicas). */
struct vp_stage_stats {
    int64_t forward_ns, backward_ns; /* computing; recomputation is backward */
    int64_t reduce_ns;               /* adding gradients of replicas, also
                                        between the parts of a backward */
    int64_t update_ns;
    int64_t wait_ns;    /* in both, for the other ranks */
    int64_t receive_ns; /* waiting for messages */
    int64_t send_ns;    /* waiting for room at the receiver */
    int64_t message_ns; /* sending and taking messages, without these waits */
    int64_t bytes_sent, bytes_received;
    int64_t n_forward, n_backward; /* minibatches */
    struct vp_way_stats act, grad; /* activations on, gradients back */
    int64_t n_sums, n_early_sums;  /* slices of gradients added; those of them
                                      that did not wait for REDUCE */
};

/* One optimizer update; in asynchronous training, one minibatch. */
struct vp_step_report {
    int64_t step;      /* 1 = first */
    int64_t n_steps;   /* of the run; 0 if unknown */
    int64_t epoch;     /* 0 = first */
    int64_t minibatch; /* minibatches done */
    double loss;       /* mean over the minibatches of the step that have
                          labels; NAN: none has */
    double lr;
    double grad_norm;            /* of all stages; infinite: skipped */
    const double *stage_norms;   /* asp: per stage, else NULL */
    float loss_scale;            /* that the step was run with; 0: none */
    int64_t n_skipped;           /* updates so far; asp: of all stages */
    int64_t n_samples, n_tokens; /* padding not counted */
    /* The window of the step, see measure.c: its length, what was executed in
     * it, and the share of the ranks' time spent waiting. Windows of a run add
     * up to its time. */
    double seconds;
    double flops;
    double bubble;
    const struct vp_memory *memory; /* per stage */
    int n_stages;
    bool saved; /* the saver has the state after this step */
};

/* Called for every step, in order, from the thread that runs the trainer.
 * Returning false ends the run after the steps already begun. */
typedef bool (*vp_step_fn)(void *ctx, const struct vp_step_report *report);

struct vp_trainer;

/* Makes and proves the schedule, lowers and plans; refuses what does not fit
 * memory_limit. Allocates nothing large when `dry`; such a trainer can only be
 * asked for its memory. In a world of several processes each one creates a
 * trainer, and vp_world_agree() decides. */
enum vp_status vp_trainer_create(const struct vp_train_config *config, bool dry,
                                 struct vp_trainer **out, struct vp_err *err);
/* False, with nothing freed, if a rank did not come back: its thread still uses
 * all that the trainer owns and borrows, and the process must end. The same
 * goes for a world of several processes that failed. */
bool vp_trainer_free(struct vp_trainer *trainer);
const struct vp_memory *vp_trainer_memory(const struct vp_trainer *trainer);
/* Bytes of the host that the ranks of this process need, 0 on a device with
 * memory of its own, and bytes that the host has left, SIZE_MAX if not known. */
struct vp_host_need {
    size_t memory, memory_left; /* stages, and the copies that save them */
    size_t space, space_left;   /* address space: these, threads, libraries */
};
struct vp_host_need vp_trainer_host_need(const struct vp_trainer *trainer);
/* Of a minibatch of the first graph, recomputed by a stage. */
double vp_trainer_redo_flops(const struct vp_trainer *trainer, int stage);
int vp_trainer_n_stages(const struct vp_trainer *trainer);
int vp_trainer_n_blocks(const struct vp_trainer *trainer, int stage);

/* Several processes: is this the one that runs, evaluates, saves and reads
 * what there is to read? All others follow it until it is freed. */
bool vp_trainer_is_lead(const struct vp_trainer *trainer);
/* `*stop` (NULL: never) asks for the end of the run, soon; the lead sees that
 * one of the others was asked. */
enum vp_status vp_trainer_follow(struct vp_trainer *trainer,
                                 const volatile sig_atomic_t *stop,
                                 struct vp_err *err);
bool vp_trainer_stopped(const struct vp_trainer *trainer);

/* Runs `n` steps; the pipe is empty afterwards, but goes on as if it had not
 * been: two runs are one. Steady steps allocate nothing. `fn` may be NULL. */
enum vp_status vp_trainer_run(struct vp_trainer *trainer, int64_t n,
                              vp_step_fn fn, void *ctx, struct vp_err *err);
/* One step. */
enum vp_status vp_trainer_step(struct vp_trainer *trainer,
                               struct vp_step_report *report_out,
                               struct vp_err *err);
/* Whether what is done every `every` steps (0: never) is done after `step`: at
 * multiples of `every`; in asynchronous training at the first step from there on
 * that ends a round of all stages, as replicas and macrobatches make rounds of
 * several minibatches. */
bool vp_trainer_is_due(const struct vp_trainer *trainer, int64_t every,
                       int64_t step);
/* The first such step after the last one that was run; `every` > 0. A run that
 * ends there drops no minibatch. */
int64_t vp_trainer_next_due(const struct vp_trainer *trainer, int64_t every);
/* Sums over the predictions of held-out batches: of the same samples they are
 * the same however samples are put into batches, but for rounding. */
struct vp_score {
    double n_labels; /* predictions */
    double loss;
    double top1, top5; /* predictions whose label was the first guess; was among
                          the first five */
};

/* The mean over predictions; NAN: there are none. */
static inline double vp_score_loss(const struct vp_score *score)
{
    return score->n_labels > 0.0 ? score->loss / score->n_labels : (double)NAN;
}

/* Mean loss over the predictions of `n_batches` held-out batches on the newest
 * weights, dropout off. Training goes on afterwards as if there had been no
 * evaluation. */
enum vp_status vp_trainer_eval(struct vp_trainer *trainer, int64_t n_batches,
                               double *loss_out, struct vp_err *err);
/* The same in parts: adds batches [first, first + n) to `*score`. */
enum vp_status vp_trainer_eval_part(struct vp_trainer *trainer, int64_t first,
                                    int64_t n, struct vp_score *score,
                                    struct vp_err *err);

/* All items of the state that this process has, stage by stage; their number,
 * or -1 without memory. The caller frees the list. */
int vp_trainer_state(const struct vp_trainer *trainer,
                     struct vp_state_item **items_out);
/* As of the step reported last; also inside of vp_step_fn. */
struct vp_progress vp_trainer_progress(const struct vp_trainer *trainer);
/* Fills all rooms, in an idle trainer. */
enum vp_status vp_trainer_save(struct vp_trainer *trainer,
                               const struct vp_saver *saver,
                               struct vp_err *err);

/* Per stage; also inside of vp_step_fn, where it allocates nothing. */
const struct vp_stage_stats *vp_trainer_stats(struct vp_trainer *trainer);
/* Of stage number `i` of a rank alone; false past its last one. */
bool vp_trainer_rank_stats(const struct vp_trainer *trainer, int rank, int i,
                           int *stage_out, struct vp_stage_stats *out);
/* The schedule of a synchronous group, or a piece of a stream. */
const struct vp_schedule *vp_trainer_schedule(const struct vp_trainer *trainer);
/* The last actions of every rank, of an idle trainer. Release with
 * vp_trace_release(). */
enum vp_status vp_trainer_trace(struct vp_trainer *trainer, const char *name,
                                struct vp_trace *out, struct vp_err *err);

/* The newest weights of a parameter, of an idle trainer; VP_ERR_INVALID if no
 * stage has it. `replica` of its stage: they are equal. */
enum vp_status vp_trainer_get_weights(const struct vp_trainer *trainer,
                                      vp_par par, int replica, float *out);

#endif
