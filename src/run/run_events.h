/* Events of a run as callbacks, and the result at its end. */
#ifndef VP_RUN_RUN_EVENTS_H
#define VP_RUN_RUN_EVENTS_H

#include "run/summary.h"
#include "runtime/trainer/trainer.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_run_result {
    int64_t n_steps;   /* steps of the run so far */
    int64_t n_trained; /* steps that were trained since the start or resume */
    int64_t n_left;    /* steps left after the last checkpoint */
    const char *limit; /* key or option that ends the run: "total_steps" */
    double first_loss, last_loss; /* means over the first and last tenth; NAN:
                                     these steps have no labels */
    double eval_loss;             /* NAN: no evaluation */
    double seconds;
    double tokens_per_second;
    double gflops_per_second;
    double bubble; /* share of the ranks' time spent waiting */
    /* Comparison of forecast and measurement, see vp_forecast_check_text();
     * NULL: no step was run. */
    const char *forecast;
    bool interrupted;
    /* Trace of all ranks, which is also in the run folder as trace.json. */
    struct vp_trace *trace;
    const struct vp_stage_stats *stats; /* per stage */
};

/* Each callback may be NULL. Called from the thread that runs
 * vp_run_train(). */
struct vp_run_events {
    void *ctx;
    void (*on_start)(void *ctx, const struct vp_run_summary *summary);
    /* The run has moved to another plan: `summary` describes the new stages,
     * whose counters begin at 0. */
    void (*on_plan)(void *ctx, const struct vp_run_summary *summary);
    void (*on_step)(void *ctx, const struct vp_step_report *report);
    /* After each step: counters of all stages, as in vp_trainer_stats(). */
    void (*on_stages)(void *ctx, const struct vp_stage_stats *stats);
    /* A line of key `verbose`; `rank` is the user's number of the rank. */
    void (*on_detail)(void *ctx, int rank, const char *line);
    /* Writing the checkpoint of `step` has begun. */
    void (*on_saved)(void *ctx, int64_t step);
    /* `loss` is the mean over the predictions of `n_batches` held-out batches;
     * NAN: they have no labels. */
    void (*on_eval)(void *ctx, int64_t step, int64_t n_batches, double loss);
    void (*on_notice)(void *ctx, const char *line);
    /* For lines about work that may be lost: to be shown even if notices are
     * not. */
    void (*on_warning)(void *ctx, const char *line);
    void (*on_end)(void *ctx, const struct vp_run_result *result);
};

#endif
