/* Private to the trainer: trainer.c creates it and its rank threads,
 * trainer_run.c runs steps, trainer_measure.c times them. */
#ifndef VP_RUNTIME_TRAINER_INTERNAL_H
#define VP_RUNTIME_TRAINER_INTERNAL_H

#include "plan/price.h"
#include "runtime/rank/remote.h"
#include "runtime/report.h"
#include "runtime/stage/stage_kept.h"
#include "runtime/state.h"
#include "runtime/train_config.h"
#include "runtime/trainer/pipeline.h"

/* Jobs are posted before the previous one ends, so that the pipeline stays
 * full. */
enum { MAX_JOBS = 4, PIECE = 64 };

/* A stream is posted in pieces of about this length, so that a run stops soon
 * after a stop request. */
#define PIECE_SECONDS 0.5

enum {
    SLICE_MS = 50, /* polling interval for ranks of this process */
    STOP_MS = 1,   /* the same after a stop request */
    HEAR_MS = 3,   /* polling interval for reports of other processes */
    /* Polling interval for reports and orders in a forward-only trainer that is
     * idle: decoding steps are short. */
    HEAR_SOON_US = 50,
    SOON_MS = 100,   /* duration of this short interval after the last order */
    GRACE_MS = 2000, /* time for ranks to end after a failure */
};

/* Part of a run that has not been reported yet, per rank; see
 * trainer_measure.c. */
struct vp_window {
    int64_t first_update; /* updates of the rank before this run */
    int64_t every;        /* number of steps in a round */
    struct vp_mark begin; /* the rank's counters at the start of the window */
    int64_t round; /* number of the last update within the run; 0: none */
    /* Counters at that update, or at the start of the run. */
    struct vp_mark mark;
};

/* Older versions that the stages of the current plan must keep for the next
 * plan. */
struct vp_older_needs {
    int n_versions[VP_MAX_STAGES]; /* per stage; 0: none */
    /* Blocks of the model that need them lie in [first, first + n_blocks). */
    int first[VP_MAX_STAGES], n_blocks[VP_MAX_STAGES];
};

/* Belongs to the trainer that takes over; see older_versions.h. */
struct vp_older_versions {
    /* Trainer whose stages keep versions; NULL: none. */
    struct vp_trainer *from;
    struct vp_older_needs needs;
    struct vp_kept *kept[VP_MAX_STAGES]; /* NULL: none, or in another process */
    /* Minibatches of `from` at the first call of vp_older_versions_are_there();
     * -1: not called yet. */
    int64_t asked_at;
};

struct vp_trainer {
    struct vp_train_config config;
    /* As configured, for one synchronous round of minibatches. */
    struct vp_sched_config sched;
    const struct vp_generator *generator;
    /* One synchronous round, or the plan of a stream. */
    struct vp_schedule schedule;
    struct vp_plan_stages stages;
    int version_begin[VP_MAX_STAGES]; /* for the current or last stream */
    int version_past[VP_MAX_STAGES];
    int64_t stream_begin;
    struct vp_pipeline pipeline;
    struct vp_rank *ranks;
    pthread_t *threads;
    int n_threads;
    struct vp_stage_price *prices; /* per stage */
    double *stage_norms;           /* for the step that is being reported */
    struct vp_scale scales[VP_MAX_STAGES]; /* loss scales after this step */
    /* Per block: its counts minus those of its stage. */
    struct vp_block_count *ahead;
    struct vp_stage_stats *stats; /* per stage */
    struct vp_window *windows;    /* per rank */

    struct vp_job jobs[MAX_JOBS];
    struct vp_counter n_posted;
    uint32_t n_jobs;
    /* Pieces of the stream, or of an evaluation. */
    struct vp_schedule pieces[2];
    int n_pieces;

    int64_t n_steps;       /* number of reported steps */
    int64_t n_minibatches; /* number of trained minibatches */
    int64_t seen_actions;
    struct vp_older_versions older; /* used until it has taken over */
    /* Limit for all ranks together without a finished action. */
    struct vp_limit idle;
    bool lost; /* a rank thread did not return in time */
};

/* trainer_measure.c: starts the measurement of a run; all ranks are idle. */
void vp_measure_begin(struct vp_trainer *trainer);
/* vp_measure_step() sets seconds, bubble and flops of step number `step` of the
 * run, counted from 1, after all ranks have made their updates of it. The run
 * has `n_steps` steps. If vp_measure_needs_end() returns true, all ranks must
 * have finished the run before. */
bool vp_measure_needs_end(const struct vp_trainer *trainer, int64_t step,
                          int64_t n_steps);
void vp_measure_step(struct vp_trainer *trainer, int64_t step, int64_t n_steps,
                     struct vp_step_report *report);

/* Numbers the items of all stages in the order of vp_trainer_state(). */
void vp_trainer_number_items(struct vp_trainer *trainer);
/* Saves all stages of this process. The trainer must be idle. */
enum vp_status vp_trainer_save_here(struct vp_trainer *trainer,
                                    const struct vp_saver *saver, int64_t step,
                                    struct vp_err *err);

/* Sets the counts to those of the run in config.loader. Called once per
 * trainer. */
void vp_trainer_set_progress(struct vp_trainer *trainer);
/* Posts the next job to the rank threads of this process. */
void vp_trainer_post(struct vp_trainer *trainer, const struct vp_job *job);
/* Waits one polling interval for `counter` of a rank; in the lead also takes the
 * reports of other processes. Returns true if it has reached `target`. */
bool vp_trainer_nap(struct vp_trainer *trainer, int rank,
                    struct vp_counter *counter, uint32_t target);
/* Waits until all ranks (in the lead: of all processes) have done `n` jobs since
 * the start. After a failure a rank thread has GRACE_MS to return; if it does
 * not, trainer->lost is set and its memory is leaked on purpose. */
void vp_trainer_wait(struct vp_trainer *trainer, uint32_t n);
/* Polls the ranks while the caller waits, and aborts the world if no rank did an
 * action within the limit. Returns false once the world was aborted. */
bool vp_trainer_watch(struct vp_trainer *trainer);

#endif
