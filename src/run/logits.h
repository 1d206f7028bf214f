/* Writes the logits of a trained model for given sequences to a file. */
#ifndef VP_RUN_LOGITS_H
#define VP_RUN_LOGITS_H

#include "config/config.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "run/sequence.h"

struct vp_logits_config {
    const struct vp_config *config; /* from vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job; /* several processes; NULL: one */
    const struct vp_sequence *sequences;
    int64_t n_sequences;
    void *ctx;
    vp_notice_fn notice;
};

/* Shape of the tensor that was written. */
struct vp_logits_shape {
    int64_t n, seq, vocab;
};

/* Writes a safetensors file:
 *
 *   logits   F32 [n, seq, vocab]  logits of each position of each sequence
 *                                 (of the decoder, if there is one); 0 after
 *                                 its end
 *   lengths  I64 [n]
 *
 * where seq is the longest length. The file exists only if it was written
 * completely. Sequences run batch_size at a time; this does not change the
 * logits of a row, unless the rounding of kernels depends on shapes.
 * VP_ERR_INVALID names the sequence (counted from 1) that is too long or has an
 * id outside of the vocabulary. */
enum vp_status vp_logits_write(const struct vp_logits_config *config,
                               const char *path,
                               struct vp_logits_shape *shape_out,
                               struct vp_err *err);

#endif
