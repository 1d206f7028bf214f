/* The metrics of a run. One table serves status.json, Prometheus and
 * TensorBoard: a metric has the same name and unit (seconds, bytes, ratios from
 * 0 to 1) in all of them. */
#ifndef VP_MONITOR_METRIC_H
#define VP_MONITOR_METRIC_H

#include "plan/plan.h"
#include "runtime/report.h"

enum vp_run_metric {
    VP_RUN_METRIC_STEPS,
    VP_RUN_METRIC_TARGET_STEPS,
    VP_RUN_METRIC_EPOCH,
    VP_RUN_METRIC_MINIBATCHES,
    VP_RUN_METRIC_SAMPLES,
    VP_RUN_METRIC_TOKENS,
    VP_RUN_METRIC_TRAINING_SECONDS,
    VP_RUN_METRIC_LOSS,
    VP_RUN_METRIC_EVAL_LOSS,
    VP_RUN_METRIC_LEARNING_RATE,
    VP_RUN_METRIC_GRADIENT_NORM,
    VP_RUN_METRIC_LOSS_SCALE,
    VP_RUN_METRIC_SKIPPED_UPDATES,
    VP_RUN_METRIC_SAMPLES_PER_SECOND,
    VP_RUN_METRIC_TOKENS_PER_SECOND,
    VP_RUN_METRIC_FLOPS_PER_SECOND,
    VP_RUN_METRIC_STEP_SECONDS,
    VP_RUN_METRIC_BUBBLE,
    VP_RUN_METRIC_ETA_SECONDS,
    VP_RUN_METRIC_CHECKPOINT_STEP,
    VP_RUN_METRIC_START_TIME,
    VP_RUN_METRIC_UPDATE_TIME,
    VP_RUN_METRIC_COUNT
};

enum vp_stage_metric {
    VP_STAGE_METRIC_FORWARD_SECONDS,
    VP_STAGE_METRIC_BACKWARD_SECONDS,
    VP_STAGE_METRIC_REDUCE_SECONDS,
    VP_STAGE_METRIC_UPDATE_SECONDS,
    VP_STAGE_METRIC_WAIT_SECONDS,
    VP_STAGE_METRIC_MESSAGE_SECONDS,
    VP_STAGE_METRIC_SENT_BYTES,
    VP_STAGE_METRIC_RECEIVED_BYTES,
    VP_STAGE_METRIC_FORWARDS,
    VP_STAGE_METRIC_BACKWARDS,
    VP_STAGE_METRIC_BUSY,
    VP_STAGE_METRIC_MEMORY,
    VP_STAGE_METRIC_GRADIENT_NORM,
    VP_STAGE_METRIC_COUNT
};

struct vp_metric {
    /* The key in status.json; Prometheus adds the prefix "vpipe_" or
     * "vpipe_stage_". Names of counters, which only grow, end with _total. */
    const char *name;
    const char *help; /* one line */
    const char *tag;  /* in TensorBoard, at each step; NULL: not written */
};

extern const struct vp_metric vp_run_metrics[VP_RUN_METRIC_COUNT];
extern const struct vp_metric vp_stage_metrics[VP_STAGE_METRIC_COUNT];

/* NAN: unknown, or the run has no such metric. */
struct vp_metrics {
    double run[VP_RUN_METRIC_COUNT];
    double stages[VP_MAX_STAGES][VP_STAGE_METRIC_COUNT];
    int n_stages;
};

/* Sets all values to NAN. */
void vp_metrics_init(struct vp_metrics *metrics, int n_stages);
/* Copies the values of a step, the same as in metrics.jsonl, and adds to the
 * totals. */
void vp_metrics_step(struct vp_metrics *metrics,
                     const struct vp_step_report *report);
/* Copies the sums of every stage; `stats` has metrics->n_stages. */
void vp_metrics_stages(struct vp_metrics *metrics,
                       const struct vp_stage_stats *stats);

#endif
