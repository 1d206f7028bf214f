/* State of a run: run.c sets it up, run_loop.c uses it. */
#ifndef VP_RUN_RUN_STATE_H
#define VP_RUN_RUN_STATE_H

#include "config/buckets.h"
#include "plan/price.h"
#include "run/blackboxes.h"
#include "run/checkpoint.h"
#include "run/first_weights.h"
#include "run/folder.h"
#include "run/forecast_check.h"
#include "run/log.h"
#include "run/missing.h"
#include "run/rebalance.h"
#include "run/resume.h"
#include "run/run_events.h"
#include "run/run_options.h"
#include "run/run_texts.h"
#include "run/samples.h"
#include "run/timeline.h"
#include "run/verbose.h"

enum { VP_RUN_MAX_WARNINGS = 32 };

struct vp_run_state {
    const struct vp_config *config;
    struct vp_run_options given_options;
    const struct vp_run_options *options; /* points to `given_options` */
    const struct vp_run_events *events;

    struct vp_dims dims[VP_MAX_BUCKETS];
    struct vp_graph graphs[VP_MAX_BUCKETS];
    int n_buckets;
    struct vp_samples samples;
    struct vp_missing missing; /* with options->elsewhere */
    struct vp_train_config train;
    struct vp_trainer *trainer;         /* NULL in a dry run */
    struct vp_priced_plan priced;       /* dry run only */
    const struct vp_schedule *schedule; /* in the trainer, or in `priced` */
    const struct vp_stage_price *prices;
    struct vp_resume *resume;           /* NULL: a new run */
    struct vp_ckpt_entry from;          /* checkpoint of `resume` */
    struct vp_first_weights *first;     /* NULL: random or resumed weights */
    struct vp_checkpoints *checkpoints; /* NULL in a dry run */
    struct vp_rebalance *rebalance;     /* NULL: the plan does not change */
    struct vp_run_texts *texts;         /* NULL: none are generated */
    int *devices;                       /* device of each rank, or NULL */
    char home[1024];         /* folder of a resumed run; "": a new folder */
    struct vp_folder folder; /* path "": nothing is written */
    struct vp_world *world;  /* several processes; NULL: one */
    struct vp_blackboxes blackboxes; /* actions of ranks, for a supervisor */
    bool agreed;                     /* all processes know of the failure */
    struct vp_log log;
    struct vp_timeline timeline;
    struct vp_verbose_log *verbose;      /* NULL: key `verbose` is not set */
    char *warnings[VP_RUN_MAX_WARNINGS]; /* kept for the log */
    int n_warnings;
    struct vp_run_summary summary;
    struct vp_run_stage stages[VP_MAX_STAGES];

    struct vp_forecast_check forecast;
    double losses[2]; /* sums over the first and the last tenth of the steps */
    int64_t n_losses[2];
    double tokens, flops, seconds, waited;
    double eval_loss;
    int64_t n_done;        /* last step that was reported */
    int64_t n_saved;       /* step of the last checkpoint that was logged */
    int64_t n_exported;    /* step of the last export, or the resumed step */
    bool uncommitted;      /* the state of step n_done waits for its score */
    enum vp_status status; /* result of writing reports */
    struct vp_err err;
};

/* Returns the step that ends the run: the last of all, or --max-steps. */
static inline int64_t vp_run_last_step(const struct vp_run_state *run)
{
    int64_t n = run->train.lr.total_steps;

    if (run->options->max_steps > 0 && run->options->max_steps < n)
        n = run->options->max_steps;
    return n;
}

#endif
