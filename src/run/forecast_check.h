/* The forecast of a run beside what was measured: time of a step, bubble, and
 * bytes of every stage.
 *
 * The forecast is that of the plan file, key `forecast` with `step_seconds`.
 * Without it the run's own schedule is simulated with the times of actions in
 * its first steps: then the difference shows what a schedule costs beside its
 * actions (messages, threads, cores that are shared), and drift. */
#ifndef VP_RUN_FORECAST_CHECK_H
#define VP_RUN_FORECAST_CHECK_H

#include "config/resolve.h"
#include "runtime/trainer/trainer.h"

/* Steps whose length is remembered: the last ones. */
enum { VP_FORECAST_CHECK_STEPS = 2048 };
/* Parts of the first steps, each with times of its own. */
enum { VP_FORECAST_CHECK_PARTS = 8 };

/* Numbers of a forecast, or of a run. */
struct vp_forecast_numbers {
    double step_seconds; /* in asp, of a minibatch */
    double bubble;
    int64_t memory[VP_MAX_STAGES]; /* bytes */
};

struct vp_forecast_check {
    bool ready;   /* there are numbers */
    bool planned; /* the plan file has the forecast */
    int n_stages;
    struct vp_forecast_numbers forecast, measured;

    /* private */
    struct vp_planned_forecast plan;
    const struct vp_train_config *train;
    const struct vp_schedule *schedule;
    const struct vp_stage_price *prices;
    bool stream;
    int64_t n_steps; /* seen */
    int64_t n_warm;  /* steps before the first ones that are timed */
    int64_t every;   /* steps from one mark to the next */
    /* Sums so far, before the first steps and after each part of them. */
    struct vp_stage_stats marks[VP_FORECAST_CHECK_PARTS + 1][VP_MAX_STAGES];
    int n_marks;
    /* Of steps after the first n_warm. */
    double seconds[VP_FORECAST_CHECK_STEPS];
    int64_t n_seconds;
    double all_seconds, waited;
};

/* Before the first step; all arguments are borrowed. Without `config` no plan
 * file has a forecast: a run has moved to another plan. */
void vp_forecast_check_begin(struct vp_forecast_check *check,
                             const struct vp_config *config,
                             const struct vp_train_config *train,
                             const struct vp_schedule *schedule,
                             const struct vp_stage_price *prices);
/* After every step, inside of vp_step_fn; allocates nothing. */
void vp_forecast_check_step(struct vp_forecast_check *check,
                            struct vp_trainer *trainer,
                            const struct vp_step_report *report);
/* After the last one: makes the numbers. Not ready if no step was run, or memory
 * is exhausted. */
void vp_forecast_check_end(struct vp_forecast_check *check,
                           struct vp_trainer *trainer);

/* "step 12.1 ms, measured 12.4 ms (+2.5 %); bubble 10.0 %, ..." */
enum { VP_FORECAST_CHECK_TEXT = 512 };
void vp_forecast_check_text(const struct vp_forecast_check *check,
                            char text[VP_FORECAST_CHECK_TEXT]);

#endif
