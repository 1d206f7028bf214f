/* Sequences of token ids from the command line, a file of ids or a text. */
#ifndef VP_TOOLS_SEQUENCES_H
#define VP_TOOLS_SEQUENCES_H

#include "base/memory.h"
#include "model/model.h"
#include "run/sequence.h"
#include "text/tokenizer.h"

struct sequences {
    struct vp_sequence *at;
    int64_t n, capacity;
    struct vp_arena arena; /* holds the ids */
};

/* Adds a copy of `n` ids. */
enum vp_status sequences_add(struct sequences *list, const uint32_t *ids,
                             size_t n, struct vp_err *err);
/* Adds "1,2,3", or "1,2,3:4,5" with the input of a decoder; spaces may replace
 * commas. Fails with VP_ERR_INVALID if a word is no id. */
enum vp_status sequences_add_ids(struct sequences *list, const char *text,
                                 size_t n_bytes, struct vp_err *err);
/* Encodes a text and adds it; for a masked LM between [CLS] and [SEP]. */
enum vp_status sequences_add_text(struct sequences *list, const char *text,
                                  const struct vp_tokenizer *tokenizer,
                                  enum vp_task task, struct vp_err *err);
/* Adds each line of a file as text, or as ids if `tokenizer` is NULL. "-" is
 * the standard input. */
enum vp_status sequences_add_file(struct sequences *list, const char *path,
                                  const struct vp_tokenizer *tokenizer,
                                  enum vp_task task, struct vp_err *err);
void sequences_release(struct sequences *list);

#endif
