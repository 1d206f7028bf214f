/* Makes a sentence store of text: an indexed file of Megatron-LM with one
 * sequence for each sentence, as BERT samples need it. Text files hold documents
 * that blank lines separate, each line of JSON is one. */
#ifndef VP_DATA_BERT_STORE_H
#define VP_DATA_BERT_STORE_H

#include "data/bert/sentences.h"
#include "data/corpus/corpus.h"

enum {
    /* Longer sentences are cut, and so are documents with more sentences. */
    VP_STORE_SENTENCE_TOKENS = 512,
    VP_STORE_DOCUMENT_SENTENCES = 1024,
};

struct vp_store_config {
    const struct vp_tokenizer *tokenizer;
    const char *const *paths; /* text, lines of JSON; also compressed */
    int n_paths;
    const char *text_key; /* of texts in lines of JSON; NULL: "text" */
    bool replace;         /* see corpus/documents.h */
    enum vp_sentence_style style;
    int n_threads;
    const char *stem; /* STEM.idx and STEM.bin are written */
    /* Called now and then; false asks to stop. NULL: not called. */
    bool (*progress)(void *ctx, const struct vp_corpus_progress *progress);
    void *ctx;
};

struct vp_store_result {
    int64_t n_bytes; /* of the files, as they are stored */
    int64_t n_documents, n_sentences, n_tokens;
    int n_styles[VP_SENTENCES_WRAPPED + 1]; /* files by style; not of JSON */
};

/* Ids of special tokens that are written in the text are ordinary letters. After
 * an error nothing is left behind. */
enum vp_status vp_store_write(const struct vp_store_config *config,
                              struct vp_store_result *out, struct vp_err *err);

#endif
