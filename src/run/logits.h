/* Logits of a trained model for given sequences, as a file. */
#ifndef VP_RUN_LOGITS_H
#define VP_RUN_LOGITS_H

#include "config/config.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "run/sequence.h"

struct vp_logits_config {
    const struct vp_config *config; /* of vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job; /* NULL: this process is alone */
    const struct vp_sequence *sequences;
    int64_t n_sequences;
    void *ctx;
    vp_notice_fn notice;
};

/* What was written. */
struct vp_logits_shape {
    int64_t n, seq, vocab;
};

/* Writes a safetensors file:
 *
 *   logits   F32 [n, seq, vocab]  for each position of each sequence (of the
 *                                 decoder, where there is one); 0 behind its end
 *   lengths  I64 [n]
 *
 * with seq the longest of them. The file is there only if all of it was written.
 * Sequences run batch_size at a time, which changes no bit of a row's logits but
 * where kernels round by shape. VP_ERR_INVALID names the sequence, from 1 on, that
 * has an id that the model does not have, or too many of them. */
enum vp_status vp_logits_write(const struct vp_logits_config *config,
                               const char *path,
                               struct vp_logits_shape *shape_out,
                               struct vp_err *err);

#endif
