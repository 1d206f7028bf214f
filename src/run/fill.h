/* The most likely tokens for the gaps of texts, by a masked language model. */
#ifndef VP_RUN_FILL_H
#define VP_RUN_FILL_H

#include "config/config.h"
#include "decode/sample.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "run/sequence.h"

enum { VP_FILL_BEST = 5 };

/* A gap and what fits it best, most likely first. Probabilities are of the whole
 * vocabulary; there are fewer than VP_FILL_BEST if that is smaller. */
struct vp_filling {
    int64_t sequence, position;
    int n;
    struct vp_sample_candidate best[VP_FILL_BEST];
};

struct vp_fill_config {
    const struct vp_config *config; /* of vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job; /* NULL: this process is alone */
    const struct vp_sequence *sequences;
    int64_t n_sequences;
    int32_t mask; /* the id that marks a gap */
    void *ctx;
    vp_notice_fn notice;
};

/* Writes an array of all gaps, in order of sequences and positions, to
 * *fillings_out; free() it. VP_ERR_INVALID names a sequence, from 1 on, that the
 * model cannot take or that has no gap. */
enum vp_status vp_fill(const struct vp_fill_config *config,
                       struct vp_filling **fillings_out, int64_t *n_out,
                       struct vp_err *err);

#endif
