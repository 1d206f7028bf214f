/* How well a trained model predicts a data set. */
#ifndef VP_RUN_EVALUATE_H
#define VP_RUN_EVALUATE_H

#include "config/config.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "runtime/report.h"

#include <signal.h>

struct vp_evaluate_config {
    const struct vp_config *config; /* of vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job; /* NULL: this process is alone */
    bool whole; /* all samples of data that is not split by its files; else what
                   training holds out */
    const volatile sig_atomic_t *stop; /* set by a signal; may be NULL */
    void *ctx;
    vp_notice_fn notice;
    /* After each part of the data; NULL: not told. */
    void (*progress)(void *ctx, int64_t n_done, int64_t n_batches);
};

struct vp_evaluation {
    char data[256]; /* vp_data_info.what */
    int64_t n_samples, n_batches;
    struct vp_score score; /* sums over all predictions */
    /* CHID: questions, and those whose right answer has the largest logit of the
     * ten; 0: other data. */
    int64_t n_questions, n_right;
    int n_stages;
    int64_t memory; /* bytes of the largest stage, as planned and allocated */
    double seconds;
};

/* Goes once over the data. VP_ERR_INTERRUPTED: it was stopped. All processes of a
 * job come here; the lead reads the data and knows the result. */
enum vp_status vp_evaluate(const struct vp_evaluate_config *config,
                           struct vp_evaluation *out, struct vp_err *err);

/* The same as a JSON object on one line; to be freed. What is not known is null.
 * VP_ERR_NOMEM. */
enum vp_status vp_evaluation_json(const struct vp_evaluation *evaluation,
                                  const struct vp_config *config,
                                  const struct vp_model_source *source,
                                  char **text_out);

#endif
