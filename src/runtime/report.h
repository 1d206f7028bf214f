/* What a trainer tells about steps, stages and evaluations: plain types. */
#ifndef VP_RUNTIME_REPORT_H
#define VP_RUNTIME_REPORT_H

#include "plan/price.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Messages in one direction. */
struct vp_way_stats {
    int64_t receive_ns, send_ns; /* waiting, as below */
    int64_t bytes_sent, bytes_received;
    int64_t n_sent, n_received;
};

/* Sums over a run so far, of one stage (all replicas). */
struct vp_stage_stats {
    int64_t forward_ns, backward_ns; /* computing; recomputation is backward */
    int64_t reduce_ns;               /* adding gradients of replicas, also
                                        between the parts of a backward */
    int64_t update_ns;
    int64_t wait_ns; /* in both, for the other ranks; and for swapped values */
    int64_t receive_ns; /* waiting for messages */
    int64_t send_ns;    /* waiting for room at the receiver */
    int64_t message_ns; /* sending and taking messages, without these waits */
    int64_t bytes_sent, bytes_received;
    int64_t n_forward, n_backward; /* minibatches */
    struct vp_way_stats act, grad; /* activations on, gradients back */
    int64_t n_sums, n_early_sums;  /* slices of gradients added; those of them
                                      that did not wait for REDUCE */
};

/* One optimizer update; in asynchronous training, one minibatch. */
struct vp_step_report {
    int64_t step;      /* 1 = first */
    int64_t n_steps;   /* of the run; 0 if unknown */
    int64_t epoch;     /* 0 = first */
    int64_t minibatch; /* minibatches done */
    double loss;       /* mean over the minibatches of the step that have
                          labels; NAN: none has */
    double lr;
    double grad_norm;            /* of all stages; infinite: skipped */
    const double *stage_norms;   /* asp: per stage, else NULL */
    float loss_scale;            /* that the step was run with; 0: none */
    int64_t n_skipped;           /* updates so far; asp: of all stages */
    int64_t n_samples, n_tokens; /* padding not counted */
    /* The window of the step, see trainer_measure.c: its length, what was executed in
     * it, and the share of the ranks' time spent waiting. Windows of a run add
     * up to its time. */
    double seconds;
    double flops;
    double bubble;
    const struct vp_stage_price *prices; /* per stage */
    int n_stages;
    bool saved; /* the saver has the state after this step */
};

/* Sums over the predictions of held-out batches: of the same samples they are
 * the same however samples are put into batches, but for rounding. */
struct vp_score {
    double n_labels; /* predictions */
    double loss;
    double top1, top5; /* predictions whose label was the first guess; was among
                          the first five */
};

/* The mean over predictions; NAN: there are none. */
static inline double vp_score_loss(const struct vp_score *score)
{
    return score->n_labels > 0.0 ? score->loss / score->n_labels : (double)NAN;
}

#endif
