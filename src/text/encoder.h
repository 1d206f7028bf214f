/* Encodes text with a tokenizer. An encoder holds working memory and a cache of
 * pieces; one thread uses it at a time. */
#ifndef VP_TEXT_ENCODER_H
#define VP_TEXT_ENCODER_H

#include "text/tokenizer.h"

struct vp_encoder;

/* Borrows `tokenizer`, which must outlive the encoder. */
enum vp_status vp_encoder_create(const struct vp_tokenizer *tokenizer,
                                 struct vp_encoder **out);
void vp_encoder_free(struct vp_encoder *encoder);

/* Appends the ids of `n` bytes of text, without adding tokens at its ends.
 * Ill-formed UTF-8 is read as U+FFFD. Special tokens in the text are
 * recognised, unless `ordinary` is true: then they are encoded as plain text.
 * Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_encoder_add(struct vp_encoder *encoder, const void *text,
                              size_t n, bool ordinary, struct vp_ids *ids);

#endif
