/* Reports of a trainer about steps, stages and evaluations: plain types. */
#ifndef VP_RUNTIME_REPORT_H
#define VP_RUNTIME_REPORT_H

#include "plan/price.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Messages in one direction. */
struct vp_way_stats {
    int64_t receive_ns, send_ns; /* waits, as in struct vp_stage_stats */
    int64_t bytes_sent, bytes_received;
    int64_t n_sent, n_received;
};

/* Sums over a run so far for one stage with all its replicas. */
struct vp_stage_stats {
    /* computing; recomputation counts as backward. */
    int64_t forward_ns, backward_ns;
    /* Adding gradients of replicas, also within a backward. */
    int64_t reduce_ns;
    int64_t update_ns;
    /* Waits for other ranks in reduce and update, and for swapped values. */
    int64_t wait_ns;
    int64_t receive_ns; /* waits for messages */
    int64_t send_ns;    /* waits for a free buffer of the receiver */
    int64_t message_ns; /* sending and taking messages, without these waits */
    int64_t bytes_sent, bytes_received;
    int64_t n_forward, n_backward; /* minibatches */
    /* Activations to the next stage, gradients to the previous. */
    struct vp_way_stats act, grad;
    /* Bundles of gradients added; those added before REDUCE. */
    int64_t n_sums, n_early_sums;
};

/* One optimizer update; in asynchronous training, one minibatch. */
struct vp_step_report {
    int64_t step;      /* 1 = first */
    int64_t n_steps;   /* steps of the whole run; 0 if unknown */
    int64_t epoch;     /* 0 = first */
    int64_t minibatch; /* minibatches done */
    double loss;       /* mean over the minibatches of the step that have
                          labels; NAN: none has */
    double lr;
    double grad_norm; /* over all stages; infinite: the update was skipped */
    /* Per stage in asynchronous training, else NULL. */
    const double *stage_norms;
    float loss_scale; /* loss scale of this step; 0: none */
    /* Skipped updates so far; asynchronous: summed over stages. */
    int64_t n_skipped;
    int64_t n_samples, n_tokens; /* padding not counted */
    /* The window of the step, see trainer_measure.c: its length, the FLOPs
     * executed in it, and the fraction of the ranks' time spent waiting. The
     * windows of a run add up to its time. */
    double seconds;
    double flops;
    double bubble;
    const struct vp_stage_price *prices; /* per stage */
    int n_stages;
    bool saved; /* the saver has a copy of the state after this step */
};

/* Sums over the predictions of held-out batches. They do not depend on how
 * samples are grouped into batches, except for rounding. */
struct vp_score {
    double n_labels; /* predictions */
    double loss;
    /* Predictions whose label had the highest score, or one of the five
     * highest. */
    double top1, top5;
};

/* Returns the mean loss per prediction; NAN if there are none. */
static inline double vp_score_loss(const struct vp_score *score)
{
    return score->n_labels > 0.0 ? score->loss / score->n_labels : (double)NAN;
}

#endif
