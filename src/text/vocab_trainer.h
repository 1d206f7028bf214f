/* Trains vocabularies from text: byte-level BPE and WordPiece, with the results
 * of Hugging Face. Single characters of WordPiece are sorted; in Hugging Face
 * their order is random. */
#ifndef VP_TEXT_VOCAB_TRAINER_H
#define VP_TEXT_VOCAB_TRAINER_H

#include "base/status.h"
#include "text/vocab_options.h"

#include <stddef.h>
#include <stdint.h>

struct vp_vocab_trainer;

/* Copies `options`; the special tokens must outlive the trainer. */
enum vp_status vp_vocab_trainer_create(const struct vp_vocab_options *options,
                                       struct vp_vocab_trainer **out);
void vp_vocab_trainer_free(struct vp_vocab_trainer *trainer);

/* Counts the words of a text. Pass each line with its LF for the results of
 * Hugging Face's training from files. Ill-formed UTF-8 is read as U+FFFD.
 * Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_vocab_trainer_add(struct vp_vocab_trainer *trainer,
                                    const void *text, size_t n);

/* Trains on the counted words. Returns VP_ERR_INVALID if options.size is too
 * small for the special tokens and single characters. */
enum vp_status vp_vocab_trainer_run(struct vp_vocab_trainer *trainer,
                                    struct vp_err *err);

struct vp_vocab_result {
    int n_tokens, n_merges;
    int64_t n_words; /* distinct words */
};
struct vp_vocab_result vp_vocab_trainer_result(
    const struct vp_vocab_trainer *trainer);

/* Writes vocab.json and merges.txt of BPE or vocab.txt of WordPiece, with
 * tokenizer_config.json and tokenizer.json, to an existing folder. All files
 * are written under temporary names before the first is renamed, so an error
 * while writing leaves older files unchanged. */
enum vp_status vp_vocab_trainer_write(const struct vp_vocab_trainer *trainer,
                                      const char *folder, struct vp_err *err);

#endif
