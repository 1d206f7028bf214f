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

/* Jobs are posted before the last one ends, so that the pipe stays full. */
enum { MAX_JOBS = 4, PIECE = 64 };

/* A stream is posted in pieces of about this length, so that a run that is
 * asked to stop does so soon. */
#define PIECE_SECONDS 0.5

enum {
    SLICE_MS = 50, /* polling interval for ranks of this process */
    STOP_MS = 1,   /* likewise, once they were asked to stop */
    HEAR_MS = 3,   /* for reports of other processes */
    /* Likewise, and for orders, in a forward-only trainer that has nothing to
     * compute: decoding steps are short. */
    HEAR_SOON_US = 50,
    SOON_MS = 100,   /* after the last order; then HEAR_MS */
    GRACE_MS = 2000, /* for ranks to end after a failure */
};

/* Of a rank, for trainer_measure.c: the part of a run that was not reported yet. */
struct vp_window {
    int64_t first_update; /* updates before the run */
    int64_t every;        /* steps of a round */
    struct vp_mark begin; /* the rank's counters at its start */
    int64_t round;        /* number of the last update in the run; 0: none */
    struct vp_mark mark;  /* the counters at that update, or at the start */
};

/* What the stages of the plan in force must keep for the next plan. */
struct vp_older_needs {
    int n_versions[VP_MAX_STAGES]; /* per stage; 0: nothing */
    /* Blocks of the model that need them lie in [first, first + n_blocks). */
    int first[VP_MAX_STAGES], n_blocks[VP_MAX_STAGES];
};

/* Part of the trainer that takes over; see older_versions.h. */
struct vp_older_versions {
    struct vp_trainer *from; /* whose stages keep; NULL: nothing is kept */
    struct vp_older_needs needs;
    struct vp_kept *kept[VP_MAX_STAGES]; /* NULL: in another process, or none */
    int64_t asked_at; /* minibatches of `from` when it was first asked whether
                         all are there; -1: not yet */
};

struct vp_trainer {
    struct vp_train_config config;
    struct vp_sched_config sched; /* as the user asked, for one group */
    const struct vp_generator *generator;
    struct vp_schedule schedule; /* a group, or the plan of a stream */
    struct vp_plan_stages stages;
    int version_begin[VP_MAX_STAGES]; /* of the stream being run, or last */
    int version_past[VP_MAX_STAGES];
    int64_t stream_begin;
    struct vp_pipeline pipeline;
    struct vp_rank *ranks;
    pthread_t *threads;
    int n_threads;
    struct vp_stage_price *prices;         /* per stage */
    double *stage_norms;                   /* of the step being reported */
    struct vp_scale scales[VP_MAX_STAGES]; /* after it */
    struct vp_block_count *ahead; /* per block, of the counts of its stage */
    struct vp_stage_stats *stats; /* per stage */
    struct vp_window *windows;    /* per rank */

    struct vp_job jobs[MAX_JOBS];
    struct vp_counter n_posted;
    uint32_t n_jobs;
    struct vp_schedule pieces[2]; /* of the stream, or an evaluation's */
    int n_pieces;

    int64_t n_steps;       /* reported */
    int64_t n_minibatches; /* trained on */
    int64_t seen_actions;
    struct vp_older_versions older; /* until it has taken over */
    struct vp_limit idle; /* for all ranks together, without an action done */
    bool lost;            /* a rank thread did not return */
};

/* trainer_measure.c: a run begins; all ranks are idle. */
void vp_measure_begin(struct vp_trainer *trainer);
/* Fills in seconds, bubble and flops of a step of the run, from 1 on, in which
 * all ranks have made their updates. `n_steps` of the run. Where the end is
 * needed, all ranks must have ended the run. */
bool vp_measure_needs_end(const struct vp_trainer *trainer, int64_t step,
                          int64_t n_steps);
void vp_measure_step(struct vp_trainer *trainer, int64_t step, int64_t n_steps,
                     struct vp_step_report *report);

/* Numbers the items of all stages, in the order of vp_trainer_state(). */
void vp_trainer_number_items(struct vp_trainer *trainer);
/* Saves all stages of this process, in an idle trainer. */
enum vp_status vp_trainer_save_here(struct vp_trainer *trainer,
                                    const struct vp_saver *saver, int64_t step,
                                    struct vp_err *err);

/* Counts go on where the run of config.loader stood; once for a trainer. */
void vp_trainer_set_progress(struct vp_trainer *trainer);
/* Gives the ranks of this process their next job. */
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
