/* The pipeline from text to BERT shards: sentence store, samples on a thread
 * pool, compressed chunks, files. */
#include "data/bert/make.h"

#include "base/pool.h"
#include "data/bert/shard_write.h"
#include "data/corpus/work.h"
#include "data/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    GROUP = 64,  /* documents whose samples are made together */
    PACKED = 16, /* chunks that are packed together */
    NAME_BYTES = 288,
    MAX_SHARDS = 1000000, /* six digits */
};

struct making {
    const struct vp_bert_config *config;
    struct vp_bert_options options;
    struct vp_work work;
    struct vp_store *store;
    struct vp_pool *pool;
    struct vp_bert_maker *makers; /* one per thread */
    struct vp_bert_result result;

    /* Documents of a group, and the results of their tasks. */
    struct {
        int64_t document, dupe;
        struct vp_bert_rows rows;
        enum vp_status st;
        struct vp_err err;
    } group[GROUP];
    int n_group;

    /* Rows that are not written yet, and the current shard. */
    struct vp_bert_rows rows;
    struct vp_bert_chunk chunks[PACKED][VP_BERT_SETS];
    enum vp_status packed[PACKED * VP_BERT_SETS];
    int64_t pack_first, pack_rows;
    struct vp_bert_shard *shard;
    int64_t shard_rows, n_chunk;
    int64_t shard_samples; /* most samples in a shard */
    int64_t n_divided;     /* samples to divide among config->n_shards; 0: each
                              shard has shard_samples */
    bool valid;            /* making the split for evaluation */
    bool counts;           /* samples are counted, not written */
};

enum vp_status vp_bert_ids_of(const struct vp_tokenizer *tokenizer,
                              struct vp_bert_ids *out, struct vp_err *err)
{
    static const struct {
        enum vp_special special;
        const char *name;
    } wanted[] = { { VP_SPECIAL_PAD, "[PAD]" },
                   { VP_SPECIAL_CLS, "[CLS]" },
                   { VP_SPECIAL_SEP, "[SEP]" },
                   { VP_SPECIAL_MASK, "[MASK]" } };
    int32_t ids[4];

    for (int i = 0; i < 4; i++) {
        ids[i] = vp_tokenizer_special(tokenizer, wanted[i].special);
        if (ids[i] < 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "the tokenizer has no %s token, which BERT "
                              "needs; choose a tokenizer of BERT "
                              "(vocab.txt), or make one with 'vpipe data "
                              "vocab --type wordpiece'",
                              wanted[i].name);
    }
    *out = (struct vp_bert_ids){ ids[0], ids[1], ids[2], ids[3],
                                 vp_tokenizer_size(tokenizer) };
    return VP_OK;
}

static enum vp_status report(struct making *making, bool writes, double done,
                             int64_t n, struct vp_err *err)
{
    const struct vp_bert_config *config = making->config;
    struct vp_bert_progress progress = { done, writes, n };

    if (!config->progress || config->progress(config->ctx, &progress))
        return VP_OK;
    return vp_err_set(err, VP_ERR_INTERRUPTED,
                      "stopped by a signal; nothing was written");
}

/* ---- Shards ------------------------------------------------------------- */

static void shard_name(const struct making *making, bool valid, int number,
                       char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%s_%s_%06d.hdf5", making->work.name,
             valid ? "test" : "training", number);
}

static bool is_shard(const char *rest)
{
    return strncmp(rest, "_training_", 10) == 0 ||
           strncmp(rest, "_test_", 6) == 0;
}

/* The shard will have at least `n_rows`. */
static enum vp_status begin_shard(struct making *making, int64_t n_rows,
                                  struct vp_err *err)
{
    int *n = making->valid ? &making->result.n_valid_shards
                           : &making->result.n_train_shards;
    char name[NAME_BYTES], path[PATH_MAX];

    if (*n == MAX_SHARDS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: more than %d shards; make them larger",
                          making->work.folder, MAX_SHARDS);
    shard_name(making, making->valid, (*n)++, name);
    VP_TRY(vp_work_path(&making->work, name, path, err));
    making->shard_rows = 0;
    making->n_chunk = vp_bert_chunk_rows(&making->options, n_rows);
    return vp_bert_shard_create(path, &making->options, making->n_chunk,
                                &making->shard, err);
}

static enum vp_status end_shard(struct making *making, struct vp_err *err)
{
    struct vp_bert_shard *shard = making->shard;

    making->shard = NULL;
    return shard ? vp_bert_shard_close(shard, err) : VP_OK;
}

/* Pool task: packs one data set of one chunk. */
static void pack_chunk(void *ctx, int task, int thread)
{
    struct making *making = ctx;
    int64_t n_chunk = making->n_chunk;
    int64_t first = task / VP_BERT_SETS * n_chunk;
    int64_t n = making->pack_rows - first;

    (void)thread;
    making->packed[task] = vp_bert_chunk_pack(
        &making->chunks[task / VP_BERT_SETS][task % VP_BERT_SETS],
        &making->options, task % VP_BERT_SETS, &making->rows,
        making->pack_first + first, n < n_chunk ? n : n_chunk, n_chunk);
}

/* Writes `n` rows from `first` on, at most PACKED chunks. The first row begins
 * a chunk of the shard. */
static enum vp_status write_rows(struct making *making, int64_t first,
                                 int64_t n, struct vp_err *err)
{
    int64_t n_chunk = making->n_chunk;
    int n_chunks = (int)((n + n_chunk - 1) / n_chunk);
    int64_t number = making->shard_rows / n_chunk;

    making->pack_first = first;
    making->pack_rows = n;
    vp_pool_run(making->pool, n_chunks * VP_BERT_SETS, pack_chunk, making);
    for (int i = 0; i < n_chunks * VP_BERT_SETS; i++) {
        int64_t end = making->shard_rows + (i / VP_BERT_SETS + 1) * n_chunk;

        if (making->packed[i] != VP_OK)
            return vp_err_set(err, VP_ERR_NOMEM, "out of memory for shards");
        if (end > making->shard_rows + n)
            end = making->shard_rows + n;
        VP_TRY(vp_bert_shard_write(
            making->shard, i % VP_BERT_SETS, number + i / VP_BERT_SETS, end,
            &making->chunks[i / VP_BERT_SETS][i % VP_BERT_SETS], err));
    }
    making->shard_rows += n;
    return VP_OK;
}

/* Removes the first `n` rows. */
static void drop_rows(struct vp_bert_rows *rows, int64_t n)
{
    rows->n -= n;
    memmove(rows->values, rows->values + n * rows->stride,
            (size_t)(rows->n * rows->stride) * sizeof(*rows->values));
}

/* Returns the number of samples for the current shard, or for the next one if
 * none is open. */
static int64_t shard_size(const struct making *making)
{
    int64_t n_shards = making->config->n_shards, n = making->n_divided;
    int64_t i = making->result.n_train_shards - (making->shard != NULL);

    if (making->valid || n == 0)
        return making->shard_samples;
    return (i + 1) * n / n_shards - i * n / n_shards;
}

/* Writes pending rows in whole chunks; with `all` the remaining rows, too. */
static enum vp_status write_pending(struct making *making, bool all,
                                    struct vp_err *err)
{
    int64_t n_most = PACKED * vp_bert_chunk_rows(&making->options,
                                                 making->shard_samples);
    int64_t at = 0;

    while (making->rows.n - at >= n_most || (all && making->rows.n > at)) {
        int64_t n = making->rows.n - at, n_shard = shard_size(making), room;

        if (!making->shard)
            VP_TRY(begin_shard(making, n < n_shard ? n : n_shard, err));
        room = n_shard - making->shard_rows;
        n = n < PACKED * making->n_chunk ? n : PACKED * making->n_chunk;
        n = n < room ? n : room;
        VP_TRY(write_rows(making, at, n, err));
        at += n;
        if (making->shard_rows == n_shard)
            VP_TRY(end_shard(making, err));
    }
    if (at > 0)
        drop_rows(&making->rows, at);
    return all ? end_shard(making, err) : VP_OK;
}

/* ---- Samples ------------------------------------------------------------ */

static void make_document(void *ctx, int task, int thread)
{
    struct making *making = ctx;

    making->group[task].rows.n = 0;
    making->group[task].st = vp_bert_make(
        &making->makers[thread], making->store, &making->options,
        making->group[task].document, making->group[task].dupe,
        &making->group[task].rows, &making->group[task].err);
}

static enum vp_status append_rows(struct vp_bert_rows *to,
                                  const struct vp_bert_rows *from,
                                  struct vp_err *err)
{
    if (from->n == 0)
        return VP_OK;
    to->stride = from->stride;
    if (to->n + from->n > to->capacity) {
        int64_t capacity = 2 * to->capacity + from->n;
        int32_t *values = realloc(to->values, (size_t)(capacity * to->stride) *
                                                  sizeof(*values));

        if (!values)
            return vp_err_set(err, VP_ERR_NOMEM, "out of memory for samples");
        to->values = values;
        to->capacity = capacity;
    }
    memcpy(to->values + to->n * to->stride, from->values,
           (size_t)(from->n * from->stride) * sizeof(*from->values));
    to->n += from->n;
    return VP_OK;
}

static void count_rows(struct making *making, const struct vp_bert_rows *rows)
{
    struct vp_bert_result *result = &making->result;
    struct vp_bert_row row;

    if (making->valid) {
        result->n_valid_samples += rows->n;
        return;
    }
    result->n_samples += rows->n;
    for (int64_t i = 0; i < rows->n; i++) {
        vp_bert_rows_get(rows, &making->options, i, &row);
        result->n_random += row.is_random;
        result->n_labels += row.n_labels;
        result->n_tokens += row.n_tokens;
    }
}

static enum vp_status make_group(struct making *making, struct vp_err *err)
{
    vp_pool_run(making->pool, making->n_group, make_document, making);
    for (int i = 0; i < making->n_group; i++) {
        if (making->group[i].st != VP_OK) {
            if (err)
                *err = making->group[i].err;
            return making->group[i].st;
        }
        count_rows(making, &making->group[i].rows);
        if (!making->counts)
            VP_TRY(append_rows(&making->rows, &making->group[i].rows, err));
    }
    making->n_group = 0;
    return write_pending(making, false, err);
}

/* Processes the documents of a split in a shuffled order, mixed with their
 * duplicates. */
static enum vp_status make_split(struct making *making, struct vp_err *err)
{
    uint64_t n_documents = (uint64_t)vp_store_documents(making->store);
    uint64_t n = n_documents *
                 (uint64_t)(making->valid ? 1 : making->config->dupe_factor);

    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = vp_permute(making->options.seed, making->valid, n, i);
        int64_t document = (int64_t)(k % n_documents);

        if (vp_bert_is_valid(&making->options, document) == making->valid) {
            making->group[making->n_group].document = document;
            making->group[making->n_group++].dupe = (int64_t)(k / n_documents);
        }
        if (making->n_group == GROUP || i + 1 == n)
            VP_TRY(make_group(making, err));
        if (i % GROUP == 0)
            VP_TRY(report(making, true, (double)i / (double)n,
                          making->result.n_samples, err));
    }
    return write_pending(making, true, err);
}

/* Counts the samples and divides them among config->n_shards shards. */
static enum vp_status divide(struct making *making, struct vp_err *err)
{
    int64_t n_shards = making->config->n_shards, n;

    making->counts = true;
    VP_TRY(make_split(making, err));
    making->counts = false;
    n = making->result.n_samples;
    if (n < n_shards)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%lld samples do not fill %lld shards; ask for "
                          "fewer, or give more text",
                          (long long)n, (long long)n_shards);
    making->n_divided = n;
    making->shard_samples = (n + n_shards - 1) / n_shards;
    making->result = (struct vp_bert_result){ .text = making->result.text };
    return VP_OK;
}

static enum vp_status make_splits(struct making *making, struct vp_err *err)
{
    making->shard_samples = making->config->shard_samples;
    if (making->config->n_shards > 0)
        VP_TRY(divide(making, err));
    VP_TRY(make_split(making, err));
    if (making->result.n_samples == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the text has no sample for training; give more "
                          "text");
    if (making->options.valid_parts == 0)
        return VP_OK;
    making->valid = true;
    VP_TRY(make_split(making, err));
    if (making->result.n_valid_samples > 0)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "%lld documents: too few to set a share aside for "
                      "evaluation; give more documents (blank lines separate "
                      "them, each line of .jsonl is one), or no share",
                      (long long)vp_store_documents(making->store));
}

/* ---- The whole ---------------------------------------------------------- */

static bool show_text(void *ctx, const struct vp_corpus_progress *progress)
{
    struct making *making = ctx;
    double all = (double)progress->n_bytes_all;

    return report(making, false, all > 0 ? (double)progress->n_bytes / all : 1,
                  progress->n_tokens, NULL) == VP_OK;
}

static enum vp_status write_store(struct making *making, char idx[PATH_MAX],
                                  struct vp_err *err)
{
    struct vp_store_config text = making->config->text;
    char stem[PATH_MAX];

    VP_TRY(vp_work_path(&making->work, "sentences", stem, err));
    text.stem = stem;
    text.progress = show_text;
    text.ctx = making;
    VP_TRY(vp_store_write(&text, &making->result.text, err));
    return vp_work_path(&making->work, "sentences.idx", idx, err);
}

/* A token takes about 4 bytes in all data sets together, with gzip. */
static enum vp_status check_space(const struct making *making,
                                  struct vp_err *err)
{
    return vp_work_check_space(
        making->work.path,
        4 * making->result.text.n_tokens * making->config->dupe_factor, err);
}

static enum vp_status check_documents(const struct making *making,
                                      struct vp_err *err)
{
    if (making->options.random_next <= 0 ||
        vp_store_documents(making->store) > 1)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "the text is one document, but random second sentences "
                      "come from other documents; separate documents with "
                      "blank lines, give several files, or set the share of "
                      "random second sentences to 0");
}

static void release(struct making *making)
{
    int n_threads = making->config->text.n_threads;

    for (int i = 0; making->makers && i < n_threads; i++)
        vp_bert_maker_release(&making->makers[i]);
    for (int i = 0; i < GROUP; i++)
        vp_bert_rows_release(&making->group[i].rows);
    for (int i = 0; i < PACKED; i++)
        for (int k = 0; k < VP_BERT_SETS; k++)
            vp_bert_chunk_release(&making->chunks[i][k]);
    vp_bert_rows_release(&making->rows);
    vp_store_close(making->store);
    vp_pool_free(making->pool);
    free(making->makers);
    free(making);
}

static enum vp_status make_all(struct making *making, struct vp_err *err)
{
    int n_threads = making->config->text.n_threads;
    char idx[PATH_MAX], bin[PATH_MAX];

    VP_TRY(write_store(making, idx, err));
    VP_TRY(vp_work_path(&making->work, "sentences.bin", bin, err));
    VP_TRY(vp_store_open(idx, making->options.ids.vocab, &making->store, err));
    VP_TRY(check_documents(making, err));
    VP_TRY(check_space(making, err));
    making->makers = calloc((size_t)n_threads, sizeof(*making->makers));
    if (!making->makers)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    if (vp_pool_create(n_threads, NULL, NULL, &making->pool) != VP_OK)
        return vp_err_thread(err, "threads that make samples");
    VP_TRY(make_splits(making, err));
    unlink(idx);
    unlink(bin);
    return VP_OK;
}

enum vp_status vp_bert_write(const struct vp_bert_config *config,
                             struct vp_bert_result *out, struct vp_err *err)
{
    struct making *making = calloc(1, sizeof(*making));
    char last[NAME_BYTES];
    enum vp_status st;

    if (!making)
        return vp_err_set(err, VP_ERR_NOMEM, "out of memory");
    making->config = config;
    making->options = config->options;
    st = vp_bert_ids_of(config->text.tokenizer, &making->options.ids, err);
    if (st == VP_OK)
        st = vp_work_open(config->folder, config->name, is_shard, &making->work,
                          err);
    if (st == VP_OK) {
        st = make_all(making, err);
        if (making->shard) /* after an error */
            (void)vp_bert_shard_close(making->shard, NULL);
        making->shard = NULL;
        shard_name(making, false, 0, last);
        if (st == VP_OK)
            st = vp_work_publish(&making->work, last, err);
        else
            vp_work_abandon(&making->work);
    }
    if (st == VP_OK)
        *out = making->result;
    release(making);
    return st;
}
