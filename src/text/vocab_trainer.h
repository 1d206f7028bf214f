/* Trains vocabularies from text: byte-level BPE equal to that of Hugging Face,
 * and WordPiece, the same way, with sorted characters where Hugging Face's
 * order is random. */
#ifndef VP_TEXT_VOCAB_TRAINER_H
#define VP_TEXT_VOCAB_TRAINER_H

#include "base/status.h"
#include "text/vocab_options.h"

#include <stddef.h>
#include <stdint.h>

struct vp_vocab_trainer;

/* Borrows the special tokens. */
enum vp_status vp_vocab_trainer_create(const struct vp_vocab_options *options,
                                       struct vp_vocab_trainer **out);
void vp_vocab_trainer_free(struct vp_vocab_trainer *trainer);

/* Counts the words of a text: a line with its LF, to equal Hugging Face's
 * training from files. Ill-formed UTF-8 counts as U+FFFD. */
enum vp_status vp_vocab_trainer_add(struct vp_vocab_trainer *trainer,
                                    const void *text, size_t n);

/* Trains on what was counted. VP_ERR_INVALID if `size` is too small. */
enum vp_status vp_vocab_trainer_run(struct vp_vocab_trainer *trainer,
                                    struct vp_err *err);

struct vp_vocab_result {
    int n_tokens, n_merges;
    int64_t n_words; /* different ones */
};
struct vp_vocab_result vp_vocab_trainer_result(
    const struct vp_vocab_trainer *trainer);

/* Writes vocab.json and merges.txt, or vocab.txt and tokenizer_config.json, and
 * tokenizer.json to an existing folder. After an error none of them is new. */
enum vp_status vp_vocab_trainer_write(const struct vp_vocab_trainer *trainer,
                                      const char *folder, struct vp_err *err);

#endif
