/* Makes a sentence store from text, the input for BERT samples: an indexed file
 * of Megatron-LM with one sequence per sentence. In text files blank lines
 * separate documents; in JSONL each line is a document. */
#ifndef VP_DATA_BERT_STORE_H
#define VP_DATA_BERT_STORE_H

#include "data/bert/sentences.h"
#include "data/corpus/corpus.h"

enum {
    /* Longer sentences, and documents with more sentences, are divided. */
    VP_STORE_SENTENCE_TOKENS = 512,
    VP_STORE_DOCUMENT_SENTENCES = 1024,
};

struct vp_store_config {
    const struct vp_tokenizer *tokenizer;
    const char *const *paths; /* text or JSONL; may be compressed */
    int n_paths;
    const char *text_key; /* key of the text in JSONL; NULL: "text" */
    bool replace;         /* see corpus/documents.h */
    enum vp_sentence_style style;
    int n_threads;
    const char *stem; /* STEM.idx and STEM.bin are written */
    /* Optional, called regularly: returns false to stop. */
    bool (*progress)(void *ctx, const struct vp_corpus_progress *progress);
    void *ctx;
};

struct vp_store_result {
    int64_t n_bytes; /* size of the files as they are stored */
    int64_t n_documents, n_sentences, n_tokens;
    int n_styles[VP_SENTENCES_WRAPPED + 1]; /* text files by style */
};

/* Writes the store. Names of special tokens in the text are encoded like
 * ordinary text. Returns VP_ERR_INTERRUPTED if `progress` returned false. After
 * an error all written files are removed. */
enum vp_status vp_store_write(const struct vp_store_config *config,
                              struct vp_store_result *out, struct vp_err *err);

#endif
