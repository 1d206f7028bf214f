/* Encodes many texts at once, on several threads. The ids do not depend on the
 * number of threads. */
#ifndef VP_TEXT_BATCH_ENCODER_H
#define VP_TEXT_BATCH_ENCODER_H

#include "text/encoder.h"

struct vp_batch_encoder;

struct vp_text_span {
    const char *bytes;
    size_t n_bytes;
};

/* Borrows `tokenizer`. `n_threads` includes the caller. */
enum vp_status vp_batch_encoder_create(const struct vp_tokenizer *tokenizer,
                                       int n_threads,
                                       struct vp_batch_encoder **out);
void vp_batch_encoder_free(struct vp_batch_encoder *batch);

/* Encodes `n` texts as vp_encoder_add() does. Replaces the ids of the last run.
 * Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_batch_encoder_run(struct vp_batch_encoder *batch,
                                    const struct vp_text_span *texts, int n,
                                    bool ordinary);
/* Returns the ids of text `i` of the last run, which succeeded; NULL if the
 * text has none. Valid until the next run. */
const uint32_t *vp_batch_encoder_ids(const struct vp_batch_encoder *batch,
                                     int i, size_t *n_out);

#endif
