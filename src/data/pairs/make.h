/* Makes a data folder of fairseq from parallel text:
 *
 *   SPLIT.de-en.de.idx .bin, SPLIT.de-en.en.idx .bin, dict.de.txt, dict.en.txt
 *
 * Ids are those of the tokenizers plus 4, </s> ends every sentence. The bytes do
 * not depend on the number of threads, memory does not grow with the text, and
 * the files appear when all are complete; else nothing is left behind. */
#ifndef VP_DATA_PAIRS_MAKE_H
#define VP_DATA_PAIRS_MAKE_H

#include "data/corpus/corpus.h"
#include "data/pairs/pair_reader.h"

struct vp_pairs_config {
    struct vp_pair_options text;
    const struct vp_tokenizer *tokenizer[2]; /* may be the same */
    int n_threads;
    const char *folder, *split; /* "train" */
    int64_t valid_parts; /* pairs for split "valid", of VP_CORPUS_PARTS */
    /* Called now and then; false asks to stop. NULL: not called. */
    bool (*progress)(void *ctx, const struct vp_corpus_progress *progress);
    void *ctx;
};

struct vp_pairs_result {
    int64_t n_pairs, n_valid_pairs; /* the first ones include the second */
    int64_t n_empty;                /* left out */
    int64_t n_tokens[2];            /* with </s> */
    int64_t vocab;                  /* the larger dictionary */
};

enum vp_status vp_pairs_write(const struct vp_pairs_config *config,
                              struct vp_pairs_result *out, struct vp_err *err);

#endif
