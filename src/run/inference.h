/* Runs a trained model forward, without gradients and optimizer. Its stages
 * form a pipeline as in training; ranks are threads of this process, or
 * processes. */
#ifndef VP_RUN_INFERENCE_H
#define VP_RUN_INFERENCE_H

#include "config/config.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "runtime/report.h"
#include "runtime/train_config.h"

struct vp_inference_config {
    const struct vp_config *config; /* from vp_model_source_config() */
    const struct vp_model_source *source;
    unsigned outputs;           /* set of enum vp_output */
    const struct vp_dims *dims; /* shapes of batches, with a program for each */
    int n_dims;
    /* Key-value cache; only for a causal model without loss. n_lines 0: none.
     * Lines keep their content across minibatches, whatever their dims. */
    struct vp_cache_size cache;
    const struct vp_data *data;   /* source of batches ... */
    struct vp_feed feed;          /* ... unless `feed.next` is set */
    struct vp_sink sink;          /* receives logits; `take` NULL: none */
    struct vp_inference_job *job; /* several processes; NULL: one */
    vp_notice_fn notice;
    void *ctx;
};

struct vp_inference;

/* Plans, allocates and loads the weights. Borrows `config->config` and `data`
 * until vp_inference_free(). Refuses replicas: one thread calls feed, one
 * thread calls sink, in the order of minibatches. In a job of several processes
 * the lead calls this, and its feed and sink are used, while the other
 * processes are in vp_inference_follow(). */
enum vp_status vp_inference_open(const struct vp_inference_config *config,
                                 struct vp_inference **out, struct vp_err *err);
/* Returns false, with nothing freed, if a rank did not return: the process must
 * then end. */
bool vp_inference_free(struct vp_inference *inference);

/* For processes other than the lead: receives the lead's request, opens the
 * same model and computes this rank's stage until the lead calls
 * vp_inference_free(). Reads only config, source, job, notice and ctx of
 * `config`. */
enum vp_status vp_inference_follow(const struct vp_inference_config *config,
                                   struct vp_err *err);

/* Runs minibatches [first, first + n). All their logits have been passed to the
 * sink when this returns. Adds to `score` if the loss is an output. Uses
 * neither label smoothing nor dropout. VP_ERR_INTERRUPTED: a process of the job
 * got a stop signal. */
enum vp_status vp_inference_run(struct vp_inference *inference, int64_t first,
                                int64_t n, struct vp_score *score,
                                struct vp_err *err);

/* Opens the model, runs the first `n` minibatches and frees it. Sets
 * `*lost_out` to true if a rank did not return: the process must then end. */
enum vp_status vp_inference_once(const struct vp_inference_config *config,
                                 int64_t n, bool *lost_out, struct vp_err *err);

/* Converts row `row` of the logits to floats. */
void vp_logits_row(const struct vp_logits *logits, int64_t row, float *out);

/* Returns planned memory per stage, which is what was allocated. */
const struct vp_stage_price *vp_inference_prices(
    const struct vp_inference *inference, int *n_stages_out);

#endif
