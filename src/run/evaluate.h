/* Evaluates a trained model on a data set: loss and accuracy. */
#ifndef VP_RUN_EVALUATE_H
#define VP_RUN_EVALUATE_H

#include "config/config.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "runtime/report.h"

#include <signal.h>

struct vp_evaluate_config {
    const struct vp_config *config; /* from vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job; /* several processes; NULL: one */
    /* true: all samples, if the data has no separate files for evaluation;
     * false: only the samples that training holds out. */
    bool whole;
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    void *ctx;
    vp_notice_fn notice;
    /* Called after each part of the data; may be NULL. */
    void (*progress)(void *ctx, int64_t n_done, int64_t n_batches);
};

struct vp_evaluation {
    char data[256]; /* vp_data_info.what */
    int64_t n_samples, n_batches;
    struct vp_score score; /* sums over all predictions */
    /* CHID: number of questions, and of those whose right answer has the
     * largest logit of the ten; 0 for other data. */
    int64_t n_questions, n_right;
    int n_stages;
    int64_t memory; /* bytes of the largest stage, as planned and allocated */
    double seconds;
};

/* Evaluates all batches of the data once. VP_ERR_INTERRUPTED: `stop` was set.
 * All processes of a job call this; the lead reads the data, and only the
 * lead's `out` has the result. */
enum vp_status vp_evaluate(const struct vp_evaluate_config *config,
                           struct vp_evaluation *out, struct vp_err *err);

/* Returns the result as a JSON object on one line, which the caller frees.
 * Unknown values are null. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_evaluation_json(const struct vp_evaluation *evaluation,
                                  const struct vp_config *config,
                                  const struct vp_model_source *source,
                                  char **text_out);

#endif
