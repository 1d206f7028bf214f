/* Converts lines of text to ids of a model, and back. */
#ifndef VP_RUN_MODEL_TEXT_H
#define VP_RUN_MODEL_TEXT_H

#include "base/strbuf.h"
#include "config/config.h"
#include "text/ids.h"

struct vp_model_text;

/* Opens the conversion that the model was trained with:
 *
 *   key `tokenizer` is given  ids of the tokenizer; for translation of fairseq
 *                             data these plus 4, as `vpipe data pairs` writes
 *                             them
 *   a run on plain text       bytes
 *   neither                   *out is NULL: the model accepts ids only
 *
 * `end` is appended to each encoded line; -1: nothing is. */
enum vp_status vp_model_text_open(const struct vp_config *config, int32_t end,
                                  struct vp_model_text **out,
                                  struct vp_err *err);
void vp_model_text_free(struct vp_model_text *text);

/* Returns the id with which the tokenizer ends texts; -1: none. */
int32_t vp_model_text_end(const struct vp_model_text *text);

/* Writes the ids of a line to `ids`, which is cleared first. Special tokens in
 * the text are recognized. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_model_text_encode(struct vp_model_text *text,
                                    const char *bytes, size_t n_bytes,
                                    struct vp_ids *ids);
/* Appends the text of ids as one line: line ends become spaces. Special tokens,
 * and ids that the tokenizer does not have, are left out; invalid UTF-8 becomes
 * U+FFFD. */
enum vp_status vp_model_text_decode(struct vp_model_text *text,
                                    const int32_t *ids, int n_ids,
                                    struct vp_strbuf *out, struct vp_err *err);

#endif
