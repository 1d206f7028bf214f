/* Makes a fairseq data folder from parallel text:
 *
 *   SPLIT.de-en.de.idx .bin, SPLIT.de-en.en.idx .bin, dict.de.txt, dict.en.txt
 *
 * Stored ids are those of the tokenizers plus 4; </s> ends every sentence. The
 * bytes do not depend on the number of threads. Memory does not grow with the
 * text. The files are renamed to the folder when all are complete; after an
 * error they are removed. */
#ifndef VP_DATA_PAIRS_MAKE_H
#define VP_DATA_PAIRS_MAKE_H

#include "data/corpus/corpus.h"
#include "data/pairs/pair_reader.h"

struct vp_pairs_config {
    struct vp_pair_options text;
    const struct vp_tokenizer *tokenizer[2]; /* may be the same */
    int n_threads;
    const char *folder, *split; /* split: "train", "valid", ... */
    int64_t valid_parts;        /* share of pairs for the split "valid", in
                            1 / VP_CORPUS_PARTS */
    /* Optional, called regularly: returns false to stop. */
    bool (*progress)(void *ctx, const struct vp_corpus_progress *progress);
    void *ctx;
};

struct vp_pairs_result {
    int64_t n_pairs; /* pairs in both splits */
    int64_t n_valid_pairs;
    int64_t n_empty;     /* pairs left out because one side is empty */
    int64_t n_tokens[2]; /* source, target; with </s> */
    int64_t vocab;       /* ids of the larger dictionary */
};

/* Writes the folder. Returns VP_ERR_INTERRUPTED if `progress` returned
 * false. */
enum vp_status vp_pairs_write(const struct vp_pairs_config *config,
                              struct vp_pairs_result *out, struct vp_err *err);

#endif
