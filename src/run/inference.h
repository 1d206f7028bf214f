/* A trained model that is run forward: no gradients, no optimizer. Its stages form
 * a pipeline as in training; ranks are threads of this process, or processes. */
#ifndef VP_RUN_INFERENCE_H
#define VP_RUN_INFERENCE_H

#include "config/config.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "runtime/report.h"
#include "runtime/train_config.h"

struct vp_inference_config {
    const struct vp_config *config; /* of vp_model_source_config() */
    const struct vp_model_source *source;
    unsigned outputs;           /* set of enum vp_output */
    const struct vp_dims *dims; /* of the batches: one program each */
    int n_dims;
    /* Of a causal model without a loss; n_lines 0: none. Lines keep what minibatches
     * wrote, whatever their dims. */
    struct vp_cache_size cache;
    const struct vp_data *data;   /* where batches come from ... */
    struct vp_feed feed;          /* ... unless `next` of a feed is set */
    struct vp_sink sink;          /* of logits; `take` NULL: not wanted */
    struct vp_inference_job *job; /* NULL: this process is alone */
    vp_notice_fn notice;
    void *ctx;
};

struct vp_inference;

/* Plans, allocates and loads the weights. `config->config` and `data` are borrowed
 * until the model is freed. Refuses replicas: feed and sink are called by one
 * thread each, in the order of minibatches. In a job of several processes it is
 * called in the lead, whose feed and sink are used, while all others are in
 * vp_inference_follow(). */
enum vp_status vp_inference_open(const struct vp_inference_config *config,
                                 struct vp_inference **out, struct vp_err *err);
/* False, with nothing freed, if a rank did not return: the process must end. */
bool vp_inference_free(struct vp_inference *inference);

/* In processes that do not lead: learns from the lead what it opens, opens the
 * same and computes this rank's stage until the lead frees its model. Of `config`
 * it uses config, source, job, notice and ctx. */
enum vp_status vp_inference_follow(const struct vp_inference_config *config,
                                   struct vp_err *err);

/* Runs minibatches [first, first + n). The sink has had all their logits when this
 * returns; `score` is added to if the loss is an output. Labels are not
 * smoothed, and nothing is dropped out. VP_ERR_INTERRUPTED: a process of the job
 * was asked to stop. */
enum vp_status vp_inference_run(struct vp_inference *inference, int64_t first,
                                int64_t n, struct vp_score *score,
                                struct vp_err *err);

/* Opens, runs the first `n` minibatches and frees. `*lost_out`: a rank did not
 * return, and the process must end. */
enum vp_status vp_inference_once(const struct vp_inference_config *config,
                                 int64_t n, bool *lost_out, struct vp_err *err);

/* Row `row` of logits as floats. */
void vp_logits_row(const struct vp_logits *logits, int64_t row, float *out);

/* What was planned, and is allocated, per stage. */
const struct vp_stage_price *vp_inference_prices(
    const struct vp_inference *inference, int *n_stages_out);

#endif
