/* Encodes documents and distributes them to shards for training and
 * evaluation. */
#include "data/corpus/corpus.h"

#include "data/corpus/documents.h"
#include "data/corpus/shards.h"
#include "data/text_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct work {
    const struct vp_corpus_config *config;
    struct vp_batch_encoder *encoder;
    struct vp_shard_writer *shards;
    int path;                  /* index of the current file */
    enum vp_shard_split split; /* split of the current document */
    int64_t n_bytes_before;    /* size of the files already read */
    struct vp_corpus_progress progress;
    struct vp_corpus_result result;
};

int32_t vp_corpus_begin_of(const struct vp_tokenizer *tokenizer)
{
    int32_t begin = vp_tokenizer_special(tokenizer, VP_SPECIAL_BEGIN);

    return begin >= 0 ? begin : vp_tokenizer_special(tokenizer, VP_SPECIAL_END);
}

/* ---- Documents to shards ------------------------------------------------ */

/* Returns the split of the next document. Documents for evaluation are spread
 * evenly. */
static enum vp_shard_split split_of(const struct work *work)
{
    const struct vp_corpus_config *config = work->config;
    int64_t place = work->result.n_documents % VP_CORPUS_PARTS;

    if (config->valid_paths && config->valid_paths[work->path])
        return VP_SHARD_VALID;
    return (place + 1) * config->valid_parts / VP_CORPUS_PARTS >
                   place * config->valid_parts / VP_CORPUS_PARTS
               ? VP_SHARD_VALID
               : VP_SHARD_TRAIN;
}

static enum vp_status add_ids(struct work *work, const int32_t *ids, int64_t n,
                              struct vp_err *err)
{
    work->result.n_tokens += n;
    if (work->split == VP_SHARD_VALID)
        work->result.n_valid_tokens += n;
    return vp_shard_writer_add(work->shards, work->split, ids, n, err);
}

static enum vp_status begin_document(struct work *work, struct vp_err *err)
{
    work->split = split_of(work);
    work->result.n_documents++;
    work->result.n_valid_documents += work->split == VP_SHARD_VALID;
    return add_ids(work, &work->config->begin, 1, err);
}

static enum vp_status add_block(struct work *work,
                                const struct vp_document_block *block,
                                struct vp_err *err)
{
    /* true: the text cannot produce special tokens. */
    enum vp_status st = vp_batch_encoder_run(work->encoder, block->spans,
                                             block->n, true);

    if (st != VP_OK)
        return vp_err_set(err, st, "out of memory; close other programs");
    for (int i = 0; i < block->n; i++) {
        size_t n;
        const uint32_t *ids = vp_batch_encoder_ids(work->encoder, i, &n);

        if (block->begins[i])
            VP_TRY(begin_document(work, err));
        /* Ids of tokenizers are below 2^20. */
        VP_TRY(add_ids(work, (const int32_t *)ids, (int64_t)n, err));
    }
    return VP_OK;
}

static enum vp_status report(struct work *work, int64_t offset,
                             struct vp_err *err)
{
    const struct vp_corpus_config *config = work->config;

    work->progress.n_bytes = work->n_bytes_before + offset;
    work->progress.n_documents = work->result.n_documents;
    work->progress.n_tokens = work->result.n_tokens;
    if (!config->progress || config->progress(config->ctx, &work->progress))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INTERRUPTED,
                      "stopped by a signal; nothing was written");
}

static enum vp_status add_file(struct work *work, const char *path,
                               struct vp_err *err)
{
    const struct vp_corpus_config *config = work->config;
    struct vp_document_options options = { .text_key = config->text_key,
                                           .replace = config->replace };
    const struct vp_document_block *block;
    struct vp_document_reader *reader;
    enum vp_status st;

    VP_TRY(vp_document_reader_open(path, config->tokenizer, &options, &reader,
                                   err));
    while ((st = vp_document_reader_next(reader, &block, err)) == VP_OK) {
        st = add_block(work, block, err);
        if (st == VP_OK)
            st = report(work, vp_document_reader_offset(reader), err);
        if (st != VP_OK)
            break;
    }
    work->n_bytes_before += vp_document_reader_offset(reader);
    vp_document_reader_close(reader);
    return st == VP_ERR_END ? VP_OK : st;
}

/* ---- The whole ---------------------------------------------------------- */

enum vp_status vp_corpus_measure(const char *const *paths, int n_paths,
                                 int64_t *n_bytes_out, int64_t *n_expected_out,
                                 struct vp_err *err)
{
    int64_t n_bytes = 0, n_expected = 0;

    for (int i = 0; i < n_paths; i++) {
        const char *path = paths[i];
        bool compressed = vp_text_stem(path) < strlen(path);
        struct stat info;

        if (stat(path, &info) != 0)
            return vp_err_set(err, VP_ERR_IO,
                              "%s: cannot be read: %s; check the path", path,
                              strerror(errno));
        if (!S_ISREG(info.st_mode))
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: is not a regular file; name text files",
                              path);
        n_bytes += info.st_size;
        n_expected += compressed ? info.st_size : info.st_size / 4;
    }
    *n_bytes_out = n_bytes;
    *n_expected_out = n_expected;
    return VP_OK;
}

static enum vp_status check_result(const struct work *work, struct vp_err *err)
{
    const struct vp_corpus_config *config = work->config;
    const struct vp_corpus_result *result = &work->result;

    if (result->n_documents == 0)
        return vp_err_set(
            err, VP_ERR_INVALID, "%s%s: no text; name files with text",
            config->paths[0], config->n_paths > 1 ? " and the others" : "");
    if (config->valid_parts > 0 &&
        (result->n_valid_documents == 0 ||
         result->n_valid_documents == result->n_documents))
        return vp_err_set(err, VP_ERR_INVALID,
                          "%lld document%s: too few to set a share aside for "
                          "evaluation; give more documents (a text file is "
                          "one, each line of .jsonl is one), or no share",
                          (long long)result->n_documents,
                          result->n_documents == 1 ? "" : "s");
    return VP_OK;
}

static enum vp_status add_all(struct work *work, struct vp_err *err)
{
    for (work->path = 0; work->path < work->config->n_paths; work->path++)
        VP_TRY(add_file(work, work->config->paths[work->path], err));
    return check_result(work, err);
}

enum vp_status vp_corpus_write(const struct vp_corpus_config *config,
                               struct vp_corpus_result *out, struct vp_err *err)
{
    struct work work = { .config = config };
    struct vp_shard_options options = {
        .folder = config->folder,
        .name = config->name,
        .vocab = vp_tokenizer_size(config->tokenizer),
        .shard_tokens = config->shard_tokens,
    };
    int n_shards[VP_SHARD_SPLITS];
    enum vp_status st;

    VP_TRY(vp_corpus_measure(config->paths, config->n_paths,
                             &work.progress.n_bytes_all, &options.n_expected,
                             err));
    if (vp_batch_encoder_create(config->tokenizer, config->n_threads,
                                &work.encoder) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory or threads for %d encoders; use fewer "
                          "threads",
                          config->n_threads);
    st = vp_shard_writer_open(&options, &work.shards, err);
    if (st == VP_OK) {
        st = add_all(&work, err);
        if (st == VP_OK)
            st = vp_shard_writer_close(work.shards, n_shards, err);
        else
            vp_shard_writer_abandon(work.shards);
    }
    vp_batch_encoder_free(work.encoder);
    VP_TRY(st);
    work.result.n_bytes = work.n_bytes_before;
    work.result.n_train_shards = n_shards[VP_SHARD_TRAIN];
    work.result.n_valid_shards = n_shards[VP_SHARD_VALID];
    *out = work.result;
    return VP_OK;
}
