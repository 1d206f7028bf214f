/* Adds parts to a tokenizer that appear in several file formats. */
#ifndef VP_TEXT_TOKENIZER_PARTS_H
#define VP_TEXT_TOKENIZER_PARTS_H

#include "text/internal.h"

#include <jansson.h>

/* Adds all tokens of {"token": id}. */
enum vp_status vp_tokenizer_add_vocab(struct vp_tokenizer *tokenizer,
                                      const json_t *vocab, struct vp_err *err);

/* Adds the merge of two tokens, with the next rank. Returns VP_ERR_INVALID if
 * the vocabulary lacks one of them or the merged token. */
enum vp_status vp_tokenizer_add_merge(struct vp_tokenizer *tokenizer,
                                      const char *left, size_t n_left,
                                      const char *right, size_t n_right,
                                      struct vp_err *err);

/* Makes a token special; does nothing if the vocabulary lacks it. */
enum vp_status vp_tokenizer_mark_special(struct vp_tokenizer *tokenizer,
                                         const char *bytes, size_t n_bytes,
                                         struct vp_err *err);

/* Adds the added token {"content": ..., "special": ..., ...} with `id`. `key`
 * is its place in the file, for messages. */
enum vp_status vp_tokenizer_add_added(struct vp_tokenizer *tokenizer,
                                      const char *key, int64_t id,
                                      const json_t *token, struct vp_err *err);

#endif
