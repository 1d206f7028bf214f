/* Reads documents, splits them into sentences, encodes these and writes the
 * store. */
#include "data/bert/store.h"

#include "data/corpus/documents.h"
#include "data/text_file.h"
#include "data/tokens/index_write.h"

#include <stdlib.h>

/* Bytes at the start of a file by which its style is detected. */
enum { STYLE_BYTES = 1 << 20 };

/* The sentences of a block. */
struct sentences {
    struct vp_text_span *span;
    bool *begins; /* sentence i is the first of a document */
    int n, capacity;
};

struct work {
    const struct vp_store_config *config;
    struct vp_batch_encoder *encoder;
    struct vp_index_writer *writer;
    struct sentences sentences;
    enum vp_sentence_style style; /* style of the current file */
    int64_t document_sentences;   /* sentences of the current document so far */
    bool blank;                   /* the previous text ended in a blank line */
    int64_t n_bytes_before;       /* size of the files already read */
    struct vp_corpus_progress progress;
    struct vp_store_result result;
};

static enum vp_status fail_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "out of memory; close other programs");
}

/* ---- Text to sentences -------------------------------------------------- */

static enum vp_status add_sentence(struct sentences *sentences,
                                   const char *bytes, size_t n, bool begins,
                                   struct vp_err *err)
{
    if (sentences->n == sentences->capacity) {
        int capacity = 2 * sentences->capacity + 1024;
        struct vp_text_span *spans = realloc(sentences->span,
                                             (size_t)capacity * sizeof(*spans));
        bool *flags;

        if (!spans)
            return fail_memory(err);
        sentences->span = spans;
        flags = realloc(sentences->begins, (size_t)capacity * sizeof(*flags));
        if (!flags)
            return fail_memory(err);
        sentences->begins = flags;
        sentences->capacity = capacity;
    }
    sentences->span[sentences->n] = (struct vp_text_span){ bytes, n };
    sentences->begins[sentences->n++] = begins;
    return VP_OK;
}

/* Adds the sentences of a text. `begins`: the text begins a document, otherwise
 * it continues one. Blank lines end a document, except in JSONL. */
static enum vp_status cut_text(struct work *work, const char *text, size_t n,
                               bool begins, bool jsonl, struct vp_err *err)
{
    enum vp_sentence_style style = jsonl ? VP_SENTENCES_PARAGRAPHS
                                         : work->style;
    size_t at = 0, begin, end;
    bool blank;

    begins = begins || work->blank;
    while (vp_sentence_next(text, n, style, &at, &begin, &end, &blank)) {
        begins = begins || (blank && !jsonl);
        VP_TRY(add_sentence(&work->sentences, text + begin, end - begin, begins,
                            err));
        begins = false;
    }
    work->blank = blank && !jsonl;
    return VP_OK;
}

/* Returns the length of the parts of one document that are adjacent in memory,
 * from part `first` on. *end_out: the part after them. */
static size_t join_parts(const struct vp_document_block *block, int first,
                         int *end_out)
{
    size_t n = block->spans[first].n_bytes;
    int i = first + 1;

    while (i < block->n && !block->begins[i] &&
           block->spans[i].bytes == block->spans[first].bytes + n)
        n += block->spans[i++].n_bytes;
    *end_out = i;
    return n;
}

static enum vp_status cut_block(struct work *work,
                                const struct vp_document_block *block,
                                bool jsonl, struct vp_err *err)
{
    work->sentences.n = 0;
    for (int i = 0, end; i < block->n; i = end) {
        size_t n = join_parts(block, i, &end);

        if (work->style == VP_SENTENCES_AUTO && !jsonl)
            work->style = vp_sentence_style_of(
                block->spans[i].bytes, n < STYLE_BYTES ? n : STYLE_BYTES);
        VP_TRY(cut_text(work, block->spans[i].bytes, n, block->begins[i], jsonl,
                        err));
    }
    return VP_OK;
}

/* ---- Sentences to the store --------------------------------------------- */

static enum vp_status put_sentence(struct work *work, const int32_t *ids,
                                   int64_t n, struct vp_err *err)
{
    while (n > 0) {
        int64_t k = n < VP_STORE_SENTENCE_TOKENS ? n : VP_STORE_SENTENCE_TOKENS;

        if (work->document_sentences == VP_STORE_DOCUMENT_SENTENCES) {
            VP_TRY(vp_index_writer_end_document(work->writer, err));
            work->document_sentences = 0;
        }
        work->result.n_documents += work->document_sentences == 0;
        work->document_sentences++;
        work->result.n_sentences++;
        work->result.n_tokens += k;
        VP_TRY(vp_index_writer_add(work->writer, ids, k, err));
        ids += k;
        n -= k;
    }
    return VP_OK;
}

static enum vp_status put_sentences(struct work *work, struct vp_err *err)
{
    const struct sentences *sentences = &work->sentences;

    if (vp_batch_encoder_run(work->encoder, sentences->span, sentences->n,
                             true) != VP_OK)
        return fail_memory(err);
    for (int i = 0; i < sentences->n; i++) {
        size_t n;
        const uint32_t *ids = vp_batch_encoder_ids(work->encoder, i, &n);

        if (sentences->begins[i]) {
            VP_TRY(vp_index_writer_end_document(work->writer, err));
            work->document_sentences = 0;
        }
        /* Ids of tokenizers are below 2^20. */
        VP_TRY(put_sentence(work, (const int32_t *)ids, (int64_t)n, err));
    }
    return VP_OK;
}

static enum vp_status report(struct work *work, int64_t offset,
                             struct vp_err *err)
{
    const struct vp_store_config *config = work->config;

    work->progress.n_bytes = work->n_bytes_before + offset;
    work->progress.n_documents = work->result.n_documents;
    work->progress.n_tokens = work->result.n_tokens;
    if (!config->progress || config->progress(config->ctx, &work->progress))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INTERRUPTED,
                      "stopped by a signal; nothing was written");
}

static enum vp_status read_file(struct work *work, const char *path,
                                struct vp_document_reader *reader,
                                struct vp_err *err)
{
    bool jsonl = vp_text_is_jsonl(path);
    const struct vp_document_block *block;
    enum vp_status st;

    work->style = work->config->style;
    work->blank = false;
    while ((st = vp_document_reader_next(reader, &block, err)) == VP_OK) {
        VP_TRY(cut_block(work, block, jsonl, err));
        VP_TRY(put_sentences(work, err));
        VP_TRY(report(work, vp_document_reader_offset(reader), err));
    }
    if (!jsonl)
        work->result.n_styles[work->style]++;
    return st == VP_ERR_END ? VP_OK : st;
}

static enum vp_status add_file(struct work *work, const char *path,
                               struct vp_err *err)
{
    struct vp_document_options options = { .text_key = work->config->text_key,
                                           .replace = work->config->replace };
    struct vp_document_reader *reader;
    enum vp_status st;

    VP_TRY(vp_document_reader_open(path, NULL, &options, &reader, err));
    st = read_file(work, path, reader, err);
    work->n_bytes_before += vp_document_reader_offset(reader);
    vp_document_reader_close(reader);
    return st;
}

/* ---- The whole ---------------------------------------------------------- */

static enum vp_status add_all(struct work *work, struct vp_err *err)
{
    const struct vp_store_config *config = work->config;

    for (int i = 0; i < config->n_paths; i++)
        VP_TRY(add_file(work, config->paths[i], err));
    if (work->result.n_tokens > 0)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%s%s: no text; name files with text", config->paths[0],
                      config->n_paths > 1 ? " and the others" : "");
}

enum vp_status vp_store_write(const struct vp_store_config *config,
                              struct vp_store_result *out, struct vp_err *err)
{
    struct work work = { .config = config };
    int64_t n_expected, vocab = vp_tokenizer_size(config->tokenizer);
    enum vp_status st;

    VP_TRY(vp_corpus_measure(config->paths, config->n_paths,
                             &work.progress.n_bytes_all, &n_expected, err));
    if (vp_batch_encoder_create(config->tokenizer, config->n_threads,
                                &work.encoder) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory or threads for %d encoders; use fewer "
                          "threads",
                          config->n_threads);
    st = vp_index_writer_open(config->stem, false, vocab, n_expected,
                              &work.writer, err);
    if (st == VP_OK) {
        st = add_all(&work, err);
        if (st == VP_OK)
            st = vp_index_writer_close(work.writer, err);
        else
            vp_index_writer_abandon(work.writer);
    }
    vp_batch_encoder_free(work.encoder);
    free(work.sentences.span);
    free(work.sentences.begins);
    VP_TRY(st);
    work.result.n_bytes = work.n_bytes_before;
    *out = work.result;
    return VP_OK;
}
