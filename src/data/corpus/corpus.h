/* Makes token files of text: documents are encoded on several threads, special
 * tokens that are written in them as ordinary letters, and stored as shards of
 * llm.c. The bytes do not depend on the number of threads. Memory does not grow
 * with the text. */
#ifndef VP_DATA_CORPUS_CORPUS_H
#define VP_DATA_CORPUS_CORPUS_H

#include "text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

/* Tokens of a shard as llm.c's scripts make them. */
enum { VP_CORPUS_SHARD_TOKENS = 100000000 };
/* Parts of all documents in which `valid_parts` counts. */
enum { VP_CORPUS_PARTS = 1000000 };

struct vp_corpus_progress {
    int64_t n_bytes, n_bytes_all; /* of the files, as they are stored */
    int64_t n_documents, n_tokens;
};

struct vp_corpus_config {
    const struct vp_tokenizer *tokenizer;
    const char *const *paths; /* text, lines of JSON; also compressed */
    int n_paths;
    const char *text_key; /* of texts in lines of JSON; NULL: "text" */
    bool replace;         /* see corpus/documents.h */
    int32_t begin;        /* id that stands before every document */
    int n_threads;
    const char *folder; /* FOLDER/NAME_train_000000.bin, see corpus/shards.h */
    const char *name;
    int64_t shard_tokens; /* at most 2^31 - 1 */
    /* Path i is for evaluation as a whole; NULL: none is. */
    const bool *valid_paths;
    int64_t valid_parts; /* documents for evaluation, of VP_CORPUS_PARTS */
    /* Called now and then; false asks to stop. NULL: not called. */
    bool (*progress)(void *ctx, const struct vp_corpus_progress *progress);
    void *ctx;
};

struct vp_corpus_result {
    int64_t n_bytes; /* of the files, as they are stored */
    int64_t n_documents, n_valid_documents;
    int64_t n_tokens, n_valid_tokens; /* the first ones include the second */
    int n_train_shards, n_valid_shards;
};

/* VP_ERR_INTERRUPTED: the progress function asked to stop. After an error
 * nothing is left behind. */
enum vp_status vp_corpus_write(const struct vp_corpus_config *config,
                               struct vp_corpus_result *out,
                               struct vp_err *err);

/* Adds up the sizes of the files, as they are stored, and guesses the number of
 * tokens: four bytes of text each, compressed to a quarter where they are.
 * Refuses what is no regular file. */
enum vp_status vp_corpus_measure(const char *const *paths, int n_paths,
                                 int64_t *n_bytes_out, int64_t *n_expected_out,
                                 struct vp_err *err);

/* The id that llm.c puts before every document: of the token that begins a
 * text, else of the one that ends it; -1: the tokenizer has none. */
int32_t vp_corpus_begin_of(const struct vp_tokenizer *tokenizer);

#endif
