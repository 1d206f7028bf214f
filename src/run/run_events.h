/* What a run reports: callbacks, and the result at its end. */
#ifndef VP_RUN_RUN_EVENTS_H
#define VP_RUN_RUN_EVENTS_H

#include "run/summary.h"
#include "runtime/trainer/trainer.h"

#include <stdbool.h>
#include <stdint.h>

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
    /* vp_forecast_check_text(): the forecast beside what was measured; NULL: no
     * step was run. */
    const char *forecast;
    bool interrupted;
    /* Of all ranks; also in the run folder, as trace.json. */
    struct vp_trace *trace;
    const struct vp_stage_stats *stats; /* per stage */
};

/* All optional. Called from the thread that runs vp_run_train(). */
struct vp_run_events {
    void *ctx;
    void (*on_start)(void *ctx, const struct vp_run_summary *summary);
    /* The run has another plan: its stages are those of `summary` from now on,
     * and their sums begin at 0. */
    void (*on_plan)(void *ctx, const struct vp_run_summary *summary);
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

#endif
