/* A training run: configuration in, run folder and reports out. */
#ifndef VP_RUN_RUN_H
#define VP_RUN_RUN_H

#include "comm/comm.h"
#include "config/config.h"
#include "job/heartbeat.h"
#include "runtime/trainer/trainer.h"

#include <signal.h>

struct vp_run_options {
    const char *output; /* run folder; NULL: <log_directory>/<time>, or that of
                           `resume`, which may also be named here */
    const char *resume; /* a run folder, or a checkpoint; NULL: start anew */
    int64_t max_steps;  /* stop after this many steps; 0: no limit */
    bool dry_run;       /* validate and report; touch nothing */
    /* Of a dry run: plan for a machine that is not here. What this one lacks is
     * named in the summary, and not an error; memory_limit still is. */
    bool elsewhere;
    bool no_data; /* and open no data: memory does not depend on it */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    /* Of several processes, which all run the same; NULL: this one alone. Not
     * used on a dry run. */
    struct vp_world *world;
    struct vp_heartbeat *heartbeat; /* NULL: no supervisor */
    char *const *argv;              /* after "vpipe", for command_history.log */
    int argc;                       /* 0: none */
};

/* One stage, as planned. */
struct vp_run_stage {
    int first_block, n_blocks;
    int64_t n_params; /* tied ones count where they are owned */
    double recompute_ratio;
    int n_lines, n_recomputed_lines; /* in all; recomputed */
    double gflops;           /* of a minibatch, with what is recomputed */
    int first_rank, n_ranks; /* of the schedule, see rank_numbers below */
    int depth;               /* forwards before the first backward */
    int n_slots;             /* minibatches in flight on a rank */
    int n_versions;          /* of its weights */
    const struct vp_memory *memory; /* of each of its ranks */
};

/* What this machine lacks to run a plan for elsewhere, with the reasons:
 * "memory (61 GiB needed, 23 GiB left), a GPU (there is no NVIDIA driver)". */
enum { VP_MISSING_TEXT = 2048 };

/* What is known before the first step. In asp a step is a minibatch, else an
 * update. */
struct vp_run_summary {
    const char *model;        /* "bert" */
    const char *data;         /* vp_data_info.what */
    const char *missing;      /* see VP_MISSING_TEXT; NULL: nothing */
    const char *output;       /* run folder, NULL on a dry run */
    int64_t resumed;          /* step of the checkpoint; 0: from the start */
    const char *resumed_from; /* as the user named it; NULL: from the start */
    bool forward_only;        /* nothing will be trained */
    int64_t n_blocks, n_params;
    int64_t batch, seq, tokens_per_step;
    int64_t n_steps, steps_per_epoch; /* 0: the data that decides is not here */
    double gflops_per_step;           /* forward, backward, recomputation */
    double unigram_loss; /* nats; what a model must beat; NAN: not known */
    const struct vp_run_stage *stages;
    int n_stages, n_ranks;
    /* The user's number of each rank of the schedule; NULL: the same. */
    const int *rank_numbers;
    int n_threads;         /* of a rank */
    int n_cores;           /* of the machine */
    const char *transport; /* "mpi" */

    /* The schedule that was proved: of a group, or of a piece of a stream. */
    const char *schedule;
    bool asp;
    int group_size;          /* minibatches */
    int n_actions;           /* of all ranks */
    char lists[128];         /* what they were made for, or, see
                                vp_schedule_explain(), why by another rule */
    double bubble_simulated; /* with FLOPs as the times of stages */
    double bubble_theory;    /* if stages were equal */
};

struct vp_run_result {
    int64_t n_steps;   /* where the run stands */
    int64_t n_trained; /* of them, by this process */
    int64_t n_left;    /* that a run resumed from what was saved would do */
    const char *limit; /* what ends the run: "total_steps" */
    double first_loss, last_loss; /* means over the first and last tenth; NAN:
                                     of steps without labels */
    double eval_loss;             /* NaN without evaluation */
    double seconds;
    double tokens_per_second;
    double gflops_per_second;
    double bubble; /* share of the ranks' time spent waiting */
    bool interrupted;
    /* Of all ranks; also in the run folder, as trace.json. */
    struct vp_trace *trace;
    const struct vp_stage_stats *stats; /* per stage */
};

/* All optional. Called from the thread that runs vp_run_train(). */
struct vp_run_events {
    void *ctx;
    void (*on_start)(void *ctx, const struct vp_run_summary *summary);
    void (*on_step)(void *ctx, const struct vp_step_report *report);
    /* With each step: every stage so far, as vp_trainer_stats() has it. */
    void (*on_stages)(void *ctx, const struct vp_stage_stats *stats);
    /* What `verbose` asked for; `rank` is the user's number. */
    void (*on_detail)(void *ctx, int rank, const char *line);
    void (*on_saved)(void *ctx, int64_t step); /* handed to the disk */
    /* The mean over the predictions of `n_batches` held-out batches; NAN: they
     * have no labels. */
    void (*on_eval)(void *ctx, int64_t step, int64_t n_batches, double loss);
    void (*on_notice)(void *ctx, const char *line);
    /* Work may be lost: to be shown whatever else is not. */
    void (*on_warning)(void *ctx, const char *line);
    void (*on_end)(void *ctx, const struct vp_run_result *result);
};

/* Of several processes only the lead calls back and writes what is read; all
 * return the same status, and the one that failed first has the text.
 * With forward_only: the mean loss over predictions on the held-out data, at most
 * num_minibatches of it, by on_eval(); the run folder is made only if
 * options->output names one, and holds no checkpoint. */
enum vp_status vp_run_train(const struct vp_config *config,
                            const struct vp_run_options *options,
                            const struct vp_run_events *events,
                            struct vp_err *err);

#endif
