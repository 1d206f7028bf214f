/* Compares the forecast of a run with the measurement: time of a step, bubble,
 * and bytes of each stage.
 *
 * The forecast is that of the plan file, key `forecast` with `step_seconds`.
 * Without one, the run's own schedule is simulated with the times of actions in
 * its first steps: the difference then shows costs of the schedule beside its
 * actions (messages, threads, shared cores), and drift over time. */
#ifndef VP_RUN_FORECAST_CHECK_H
#define VP_RUN_FORECAST_CHECK_H

#include "config/resolve.h"
#include "runtime/trainer/trainer.h"

enum {
    VP_FORECAST_CHECK_STEPS = 2048, /* last steps whose length is stored */
    VP_FORECAST_CHECK_PARTS = 8,    /* parts of the first steps */
};

/* Forecast or measured numbers. */
struct vp_forecast_numbers {
    double step_seconds; /* seconds per step; in sync_mode asp, per minibatch */
    double bubble;
    int64_t memory[VP_MAX_STAGES]; /* bytes */
};

struct vp_forecast_check {
    bool ready;   /* `forecast` and `measured` are set */
    bool planned; /* the forecast comes from the plan file */
    int n_stages;
    struct vp_forecast_numbers forecast, measured;

    /* private */
    struct vp_planned_forecast plan;
    const struct vp_train_config *train;
    const struct vp_schedule *schedule;
    const struct vp_stage_price *prices;
    bool stream;
    int64_t n_steps; /* steps seen so far */
    int64_t n_warm;  /* warm-up steps, which are not timed */
    int64_t every;   /* steps between two marks */
    /* Counters after the warm-up, and after each part of the first steps. */
    struct vp_stage_stats marks[VP_FORECAST_CHECK_PARTS + 1][VP_MAX_STAGES];
    int n_marks;
    /* Steps after the first n_warm. */
    double seconds[VP_FORECAST_CHECK_STEPS];
    int64_t n_seconds;
    double all_seconds, waited;
};

/* To be called before the first step; all arguments are borrowed. `config`
 * NULL: the forecast of a plan file does not apply, because the run has moved
 * to another plan. */
void vp_forecast_check_begin(struct vp_forecast_check *check,
                             const struct vp_config *config,
                             const struct vp_train_config *train,
                             const struct vp_schedule *schedule,
                             const struct vp_stage_price *prices);
/* To be called after every step, inside vp_step_fn; allocates nothing. */
void vp_forecast_check_step(struct vp_forecast_check *check,
                            struct vp_trainer *trainer,
                            const struct vp_step_report *report);
/* To be called after the last step: computes the numbers. `ready` stays false
 * if no step was run, or if memory is exhausted. */
void vp_forecast_check_end(struct vp_forecast_check *check,
                           struct vp_trainer *trainer);

/* Writes "by the plan: step 12.1 ms, measured 12.4 ms (+2.5 %); bubble 10.0 %,
 * ...". */
enum { VP_FORECAST_CHECK_TEXT = 512 };
void vp_forecast_check_text(const struct vp_forecast_check *check,
                            char text[VP_FORECAST_CHECK_TEXT]);

#endif
