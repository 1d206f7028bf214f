/* The table of metrics, and their values from the reports of the runtime. */
#include "monitor/metric.h"

#include <math.h>

/* clang-format off */
const struct vp_metric vp_run_metrics[VP_RUN_METRIC_COUNT] = {
    [VP_RUN_METRIC_STEPS] = { "steps_total",
        "Steps done: updates, in asynchronous training minibatches.", NULL },
    [VP_RUN_METRIC_TARGET_STEPS] = { "target_steps",
        "Steps after which the run ends.", NULL },
    [VP_RUN_METRIC_EPOCH] = { "epoch",
        "Epoch of the last step, from 0.", "progress/epoch" },
    [VP_RUN_METRIC_MINIBATCHES] = { "minibatches_total",
        "Minibatches done.", "progress/minibatches" },
    [VP_RUN_METRIC_SAMPLES] = { "samples_total",
        "Samples that this process has trained on.", NULL },
    [VP_RUN_METRIC_TOKENS] = { "tokens_total",
        "Tokens that this process has trained on, without padding.", NULL },
    [VP_RUN_METRIC_TRAINING_SECONDS] = { "training_seconds_total",
        "Time of the steps that this process has trained.", NULL },
    [VP_RUN_METRIC_LOSS] = { "loss",
        "Training loss of the last step.", "loss/train" },
    [VP_RUN_METRIC_EVAL_LOSS] = { "eval_loss",
        "Held-out loss of the last evaluation.", "loss/held_out" },
    [VP_RUN_METRIC_LEARNING_RATE] = { "learning_rate",
        "Learning rate of the last step.", "optimizer/learning_rate" },
    [VP_RUN_METRIC_GRADIENT_NORM] = { "gradient_norm",
        "Norm of the gradient of the last step.", "optimizer/gradient_norm" },
    [VP_RUN_METRIC_LOSS_SCALE] = { "loss_scale",
        "Loss scale of the last step.", "optimizer/loss_scale" },
    [VP_RUN_METRIC_SKIPPED_UPDATES] = { "skipped_updates_total",
        "Updates that were skipped because a gradient was not finite.",
        "optimizer/skipped_updates" },
    [VP_RUN_METRIC_SAMPLES_PER_SECOND] = { "samples_per_second",
        "Samples per second of the last step.",
        "throughput/samples_per_second" },
    [VP_RUN_METRIC_TOKENS_PER_SECOND] = { "tokens_per_second",
        "Tokens per second of the last step, without padding.",
        "throughput/tokens_per_second" },
    [VP_RUN_METRIC_FLOPS_PER_SECOND] = { "flops_per_second",
        "Floating-point operations per second of the last step.",
        "throughput/flops_per_second" },
    [VP_RUN_METRIC_STEP_SECONDS] = { "step_seconds",
        "Duration of the last step.", "time/step_seconds" },
    [VP_RUN_METRIC_BUBBLE] = { "bubble_ratio",
        "Share of the ranks' time in the last step that was spent waiting.",
        "time/bubble_ratio" },
    [VP_RUN_METRIC_ETA_SECONDS] = { "eta_seconds",
        "Time to the last step, at the pace of recent steps.", NULL },
    [VP_RUN_METRIC_CHECKPOINT_STEP] = { "checkpoint_step",
        "Step of the newest checkpoint of this process.", NULL },
    [VP_RUN_METRIC_START_TIME] = { "start_time_seconds",
        "When training began, in seconds since 1970.", NULL },
    [VP_RUN_METRIC_UPDATE_TIME] = { "update_time_seconds",
        "When these numbers were written, in seconds since 1970.", NULL },
};

const struct vp_metric vp_stage_metrics[VP_STAGE_METRIC_COUNT] = {
    [VP_STAGE_METRIC_FORWARD_SECONDS] = { "forward_seconds_total",
        "Time in forward, of all replicas of the stage.", NULL },
    [VP_STAGE_METRIC_BACKWARD_SECONDS] = { "backward_seconds_total",
        "Time in backward and recomputation.", NULL },
    [VP_STAGE_METRIC_REDUCE_SECONDS] = { "reduce_seconds_total",
        "Time in which gradients of replicas were added.", NULL },
    [VP_STAGE_METRIC_UPDATE_SECONDS] = { "update_seconds_total",
        "Time in updates of the weights.", NULL },
    [VP_STAGE_METRIC_WAIT_SECONDS] = { "wait_seconds_total",
        "Time in waits for other ranks, messages and swapped values.", NULL },
    [VP_STAGE_METRIC_MESSAGE_SECONDS] = { "message_seconds_total",
        "Time in sending and receiving, without waits.", NULL },
    [VP_STAGE_METRIC_SENT_BYTES] = { "sent_bytes_total",
        "Bytes sent to other stages.", NULL },
    [VP_STAGE_METRIC_RECEIVED_BYTES] = { "received_bytes_total",
        "Bytes received from other stages.", NULL },
    [VP_STAGE_METRIC_FORWARDS] = { "forwards_total",
        "Minibatches whose forward is done.", NULL },
    [VP_STAGE_METRIC_BACKWARDS] = { "backwards_total",
        "Minibatches whose backward is done.", NULL },
    [VP_STAGE_METRIC_BUSY] = { "busy_ratio",
        "Share of recent time in which the ranks of the stage computed.",
        NULL },
    [VP_STAGE_METRIC_MEMORY] = { "memory_bytes",
        "Memory of each rank of the stage, as allocated.", "memory" },
    [VP_STAGE_METRIC_GRADIENT_NORM] = { "gradient_norm",
        "Norm of the stage's gradient; asynchronous training only.",
        "optimizer/gradient_norm" },
};
/* clang-format on */

void vp_metrics_init(struct vp_metrics *metrics, int n_stages)
{
    metrics->n_stages = n_stages;
    for (int i = 0; i < VP_RUN_METRIC_COUNT; i++)
        metrics->run[i] = NAN;
    for (int s = 0; s < VP_MAX_STAGES; s++)
        for (int i = 0; i < VP_STAGE_METRIC_COUNT; i++)
            metrics->stages[s][i] = NAN;
}

static double known(double value)
{
    return isfinite(value) ? value : (double)NAN;
}

/* Returns n per second; NAN if no time was measured. */
static double rate_of(double n, const struct vp_step_report *report)
{
    return report->seconds > 0.0 ? n / report->seconds : (double)NAN;
}

/* `*sum` starts at NAN. */
static void add(double *sum, double value)
{
    *sum = isnan(*sum) ? value : *sum + value;
}

void vp_metrics_step(struct vp_metrics *metrics,
                     const struct vp_step_report *report)
{
    double *run = metrics->run;
    bool scaled = report->loss_scale > 0.0f;

    run[VP_RUN_METRIC_STEPS] = (double)report->step;
    run[VP_RUN_METRIC_TARGET_STEPS] = report->n_steps > 0
                                          ? (double)report->n_steps
                                          : (double)NAN;
    run[VP_RUN_METRIC_EPOCH] = (double)report->epoch;
    run[VP_RUN_METRIC_MINIBATCHES] = (double)report->minibatch;
    add(&run[VP_RUN_METRIC_SAMPLES], (double)report->n_samples);
    add(&run[VP_RUN_METRIC_TOKENS], (double)report->n_tokens);
    add(&run[VP_RUN_METRIC_TRAINING_SECONDS], report->seconds);
    run[VP_RUN_METRIC_LOSS] = known(report->loss);
    run[VP_RUN_METRIC_LEARNING_RATE] = report->lr;
    run[VP_RUN_METRIC_GRADIENT_NORM] = report->stage_norms
                                           ? (double)NAN
                                           : known(report->grad_norm);
    run[VP_RUN_METRIC_LOSS_SCALE] = scaled ? (double)report->loss_scale
                                           : (double)NAN;
    run[VP_RUN_METRIC_SKIPPED_UPDATES] = scaled ? (double)report->n_skipped
                                                : (double)NAN;
    run[VP_RUN_METRIC_SAMPLES_PER_SECOND] = rate_of((double)report->n_samples,
                                                    report);
    run[VP_RUN_METRIC_TOKENS_PER_SECOND] = rate_of((double)report->n_tokens,
                                                   report);
    run[VP_RUN_METRIC_FLOPS_PER_SECOND] = rate_of(report->flops, report);
    run[VP_RUN_METRIC_STEP_SECONDS] = report->seconds;
    run[VP_RUN_METRIC_BUBBLE] = report->bubble;
    metrics->n_stages = report->n_stages;
    for (int s = 0; s < report->n_stages; s++) {
        double *stage = metrics->stages[s];

        stage[VP_STAGE_METRIC_MEMORY] = (double)report->prices[s].memory.total;
        stage[VP_STAGE_METRIC_GRADIENT_NORM] = report->stage_norms
                                                   ? known(
                                                         report->stage_norms[s])
                                                   : (double)NAN;
    }
}

void vp_metrics_stages(struct vp_metrics *metrics,
                       const struct vp_stage_stats *stats)
{
    for (int s = 0; s < metrics->n_stages; s++) {
        const struct vp_stage_stats *from = &stats[s];
        double *to = metrics->stages[s];
        int64_t wait = from->wait_ns + from->receive_ns + from->send_ns;

        to[VP_STAGE_METRIC_FORWARD_SECONDS] = 1e-9 * (double)from->forward_ns;
        to[VP_STAGE_METRIC_BACKWARD_SECONDS] = 1e-9 * (double)from->backward_ns;
        to[VP_STAGE_METRIC_REDUCE_SECONDS] = 1e-9 * (double)from->reduce_ns;
        to[VP_STAGE_METRIC_UPDATE_SECONDS] = 1e-9 * (double)from->update_ns;
        to[VP_STAGE_METRIC_WAIT_SECONDS] = 1e-9 * (double)wait;
        to[VP_STAGE_METRIC_MESSAGE_SECONDS] = 1e-9 * (double)from->message_ns;
        to[VP_STAGE_METRIC_SENT_BYTES] = (double)from->bytes_sent;
        to[VP_STAGE_METRIC_RECEIVED_BYTES] = (double)from->bytes_received;
        to[VP_STAGE_METRIC_FORWARDS] = (double)from->n_forward;
        to[VP_STAGE_METRIC_BACKWARDS] = (double)from->n_backward;
    }
}
