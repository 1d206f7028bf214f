/* Finds the most likely tokens for the gaps (mask tokens) of texts with a
 * masked language model. */
#ifndef VP_RUN_FILL_H
#define VP_RUN_FILL_H

#include "config/config.h"
#include "decode/sample.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "run/sequence.h"

enum { VP_FILL_BEST = 5 };

/* A gap and its best tokens, most likely first. Probabilities are over the
 * whole vocabulary. `n` is less than VP_FILL_BEST only if the vocabulary is
 * smaller. */
struct vp_filling {
    int64_t sequence, position;
    int n;
    struct vp_sample_candidate best[VP_FILL_BEST];
};

struct vp_fill_config {
    const struct vp_config *config; /* from vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job; /* several processes; NULL: one */
    const struct vp_sequence *sequences;
    int64_t n_sequences;
    int32_t mask; /* id of the mask token, which marks a gap */
    void *ctx;
    vp_notice_fn notice;
};

/* Writes an array of all gaps, in order of sequences and positions, to
 * `*fillings_out`; the caller frees it. VP_ERR_INVALID names a sequence
 * (counted from 1) that the model cannot take or that has no gap. */
enum vp_status vp_fill(const struct vp_fill_config *config,
                       struct vp_filling **fillings_out, int64_t *n_out,
                       struct vp_err *err);

#endif
