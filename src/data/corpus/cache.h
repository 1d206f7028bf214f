/* Text that was encoded before: token files in a folder beside the text, by the
 * content of the text and of the tokenizer. */
#ifndef VP_DATA_CORPUS_CACHE_H
#define VP_DATA_CORPUS_CACHE_H

#include "data/corpus/corpus.h"

#include <limits.h>

/* In the folder of the text; where that cannot be written: vpipe in
 * $XDG_CACHE_HOME or in ~/.cache. */
#define VP_CORPUS_CACHE_NAME ".vpipe-cache"

enum { VP_CORPUS_WAIT_MS = 600000 };
#define VP_CORPUS_BYTES_NAME "text.bytes"

struct vp_corpus_cache_config {
    const char *data; /* a text file, or a folder of them, see walk.h */
    /* NULL: the bytes of the text, one file named VP_CORPUS_BYTES_NAME. */
    const struct vp_tokenizer *tokenizer;
    const char *text_key;    /* of texts in lines of JSON; NULL: "text" */
    bool replace;            /* see corpus/documents.h */
    bool sentences;          /* files for BERT, see bert/store.h; else token
                                files of llm.c */
    const char *valid_split; /* word in names of files for evaluation; NULL: see
                                split_name.h */
    int n_threads;
    /* How long another process that makes files may write nothing before it is
     * given up; 0: VP_CORPUS_WAIT_MS. */
    int64_t wait_ms;
    /* Called now and then, also while another process makes the files; false
     * asks to stop. NULL: not called. */
    bool (*progress)(void *ctx, const struct vp_corpus_progress *progress);
    void *ctx;
};

struct vp_corpus_cached {
    char folder[PATH_MAX];        /* of the files */
    bool is_new;                  /* it was made by this call */
    struct vp_corpus_result made; /* if is_new */
};

/* Finds the token files, or makes them. One process at a time makes some; a
 * folder appears when it is complete. All of the text is read in both cases. */
enum vp_status vp_corpus_cache(const struct vp_corpus_cache_config *config,
                               struct vp_corpus_cached *out,
                               struct vp_err *err);
/* True if the text at `path` is too large to be held in memory, see
 * corpus/bytes.h. */
enum vp_status vp_corpus_is_large_at(const char *path, bool *out,
                                     struct vp_err *err);
/* True if `path` holds text and no files of another format, by names and first
 * bytes. */
bool vp_corpus_is_text(const char *path);

#endif
