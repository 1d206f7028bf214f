/* What the two halves of a trainer share: trainer.c creates it and keeps the
 * rank threads, train.c runs it. */
#ifndef VP_RUNTIME_TRAINER_CONDUCTOR_H
#define VP_RUNTIME_TRAINER_CONDUCTOR_H

#include "runtime/rank/remote.h"
#include "runtime/trainer/pipeline.h"
#include "runtime/trainer/trainer.h"

/* A job that is posted before the last one ends keeps the pipe full. */
enum { MAX_JOBS = 4, PIECE = 64 };

/* A stream is posted in pieces of about this length, so that a run that is
 * asked to stop does so soon. */
#define PIECE_SECONDS 0.5

enum {
    SLICE_MS = 50,   /* between looks at the ranks */
    HEAR_MS = 3,     /* at other processes */
    GRACE_MS = 2000, /* for ranks to notice a failure */
};

/* Of a rank, for measure.c: the part of a run that no report has told of yet. */
struct vp_window {
    int64_t first_update; /* updates before the run */
    int64_t every;        /* steps of a round */
    struct vp_mark begin; /* what the rank had done where it begins */
    int64_t round;        /* of the run, whose update was the last before; 0: */
    struct vp_mark mark;  /* ... none, and this is its start */
};

struct vp_trainer {
    struct vp_train_config config;
    struct vp_sched_config sched; /* as the user asked, for one group */
    const struct vp_generator *generator;
    struct vp_schedule schedule; /* a group, or the plan of a stream */
    bool recompute[VP_MAX_STAGES];
    int version_begin[VP_MAX_STAGES]; /* of the stream being run, or last */
    int version_past[VP_MAX_STAGES];
    int64_t stream_begin;
    struct vp_pipeline pipeline;
    struct vp_rank *ranks;
    pthread_t *threads;
    int n_threads;
    struct vp_memory *memory;              /* per stage */
    double *stage_norms;                   /* of the step being reported */
    struct vp_scale scales[VP_MAX_STAGES]; /* after it */
    struct vp_stage_stats *stats;          /* per stage */
    struct vp_window *windows;             /* per rank */

    struct vp_job jobs[MAX_JOBS];
    struct vp_counter n_posted;
    uint32_t n_jobs;
    struct vp_schedule pieces[2]; /* of the stream, or an evaluation's */
    int n_pieces;

    int64_t n_steps;       /* reported */
    int64_t n_minibatches; /* trained on */
    int64_t seen_actions;
    struct vp_limit idle; /* for all ranks together, without an action done */
    bool lost;            /* a rank does not come back */
};

/* measure.c: a run begins; all ranks are idle. */
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

/* Gives the ranks of this process their next job. */
void vp_trainer_post(struct vp_trainer *trainer, const struct vp_job *job);
/* Waits for `counter` a while, and looks after other processes meanwhile. */
bool vp_trainer_nap(struct vp_trainer *trainer, struct vp_counter *counter,
                    uint32_t target);
/* Waits until all ranks have done `n` jobs since the start: of all processes in
 * the lead, else of this one. After a failure
 * they have a moment to come back; one that does not is given up, with its
 * memory. */
void vp_trainer_wait(struct vp_trainer *trainer, uint32_t n);
/* Looks after the ranks while the conductor waits: if nothing at all happens,
 * nobody else complains. Returns false once the world has stopped. */
bool vp_trainer_watch(struct vp_trainer *trainer);

#endif
