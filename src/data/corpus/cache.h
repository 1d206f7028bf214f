/* A cache of encoded text: token files in a folder beside the text, under a
 * hash of the text and of the tokenizer. */
#ifndef VP_DATA_CORPUS_CACHE_H
#define VP_DATA_CORPUS_CACHE_H

#include "data/corpus/corpus.h"

#include <limits.h>

/* Name of the cache in the folder of the text. If that is not writable, the
 * cache is the folder vpipe in $XDG_CACHE_HOME or ~/.cache. */
#define VP_CORPUS_CACHE_NAME ".vpipe-cache"

enum { VP_CORPUS_WAIT_MS = 600000 };
#define VP_CORPUS_BYTES_NAME "text.bytes"

struct vp_corpus_cache_config {
    const char *data; /* a text file, or a folder of them, see walk.h */
    /* NULL: cache the bytes of the text, as a file VP_CORPUS_BYTES_NAME. */
    const struct vp_tokenizer *tokenizer;
    const char *text_key;    /* key of the text in JSONL; NULL: "text" */
    bool replace;            /* see corpus/documents.h */
    bool sentences;          /* make sentence stores for BERT (bert/store.h);
                                false: token files of llm.c */
    const char *valid_split; /* word in names of files for evaluation; NULL: see
                                split_name.h */
    int n_threads;
    /* Time limit of the wait for another process that holds the lock; restarts
     * whenever that process writes. 0: VP_CORPUS_WAIT_MS. */
    int64_t wait_ms;
    /* Optional, called regularly, also while waiting for another process:
     * returns false to stop. */
    bool (*progress)(void *ctx, const struct vp_corpus_progress *progress);
    void *ctx;
};

struct vp_corpus_cached {
    char folder[PATH_MAX];        /* folder of the files */
    bool is_new;                  /* made by this call */
    struct vp_corpus_result made; /* if is_new */
};

/* Finds the token files, or makes them. A lock lets one process at a time make
 * them, and a folder is renamed when it is complete. Reads the whole text in
 * both cases, to hash it. */
enum vp_status vp_corpus_cache(const struct vp_corpus_cache_config *config,
                               struct vp_corpus_cached *out,
                               struct vp_err *err);
/* Sets *out to true if the text at `path` is too large for memory, see
 * corpus/bytes.h. */
enum vp_status vp_corpus_is_large_at(const char *path, bool *out,
                                     struct vp_err *err);
/* Returns true if `path` holds text and no files of another format, by names
 * and first bytes. */
bool vp_corpus_is_text(const char *path);

#endif
