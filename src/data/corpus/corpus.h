/* Makes token files from text: documents are encoded on several threads and
 * stored as shards of llm.c. Names of special tokens in a text are encoded like
 * ordinary text. The bytes do not depend on the number of threads. Memory does
 * not grow with the text. */
#ifndef VP_DATA_CORPUS_CORPUS_H
#define VP_DATA_CORPUS_CORPUS_H

#include "text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

/* Default tokens per shard, as in llm.c's scripts. */
enum { VP_CORPUS_SHARD_TOKENS = 100000000 };
/* Denominator of `valid_parts`. */
enum { VP_CORPUS_PARTS = 1000000 };

struct vp_corpus_progress {
    int64_t n_bytes, n_bytes_all; /* read so far, and in all, as stored */
    int64_t n_documents, n_tokens;
};

struct vp_corpus_config {
    const struct vp_tokenizer *tokenizer;
    const char *const *paths; /* text or JSONL; may be compressed */
    int n_paths;
    const char *text_key; /* key of the text in JSONL; NULL: "text" */
    bool replace;         /* see corpus/documents.h */
    int32_t begin;        /* id that is put before every document */
    int n_threads;
    const char *folder; /* FOLDER/NAME_train_000000.bin, see corpus/shards.h */
    const char *name;
    int64_t shard_tokens; /* at most 2^31 - 1 */
    /* [n_paths], true: the whole file is for evaluation; NULL: none is. */
    const bool *valid_paths;
    int64_t valid_parts; /* share of documents for evaluation, in
                            1 / VP_CORPUS_PARTS */
    /* Optional, called regularly: returns false to stop. */
    bool (*progress)(void *ctx, const struct vp_corpus_progress *progress);
    void *ctx;
};

struct vp_corpus_result {
    int64_t n_bytes;               /* size of the files as they are stored */
    int64_t n_documents, n_tokens; /* totals of both splits */
    int64_t n_valid_documents, n_valid_tokens;
    int n_train_shards, n_valid_shards;
};

/* Writes the shards. Returns VP_ERR_INTERRUPTED if `progress` returned false.
 * After an error all written files are removed. */
enum vp_status vp_corpus_write(const struct vp_corpus_config *config,
                               struct vp_corpus_result *out,
                               struct vp_err *err);

/* Adds up the stored sizes of the files and estimates the number of tokens:
 * four bytes of text per token, and a compression to a quarter for compressed
 * files. Refuses paths that are not regular files. */
enum vp_status vp_corpus_measure(const char *const *paths, int n_paths,
                                 int64_t *n_bytes_out, int64_t *n_expected_out,
                                 struct vp_err *err);

/* Returns the id that llm.c puts before every document: the token that begins a
 * text, or else the one that ends it; -1 if the tokenizer has neither. */
int32_t vp_corpus_begin_of(const struct vp_tokenizer *tokenizer);

#endif
