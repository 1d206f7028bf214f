/* Samples of one document: lengths, second parts, masks. */
#include "data/bert/samples.h"

#include "base/rng.h"
#include "data/bert/store.h"
#include "data/corpus/corpus.h"
#include "data/tokens/shard.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES = 10, EXTRA = 3 };

/* The sentences of one document. */
struct vp_document_text {
    int64_t size[VP_STORE_DOCUMENT_SENTENCES];
    int64_t start[VP_STORE_DOCUMENT_SENTENCES + 1];
    int n;
    int64_t number;
    int32_t ids[VP_STORE_DOCUMENT_SENTENCES * VP_STORE_SENTENCE_TOKENS];
};

struct vp_store {
    struct vp_file_set *set;
    struct vp_token_shard shard;
};

/* ---- The store ---------------------------------------------------------- */

enum vp_status vp_store_open(const char *idx_path, int64_t vocab,
                             struct vp_store **out, struct vp_err *err)
{
    struct vp_store *store = calloc(1, sizeof(*store));
    enum vp_status st = VP_OK;

    if (store)
        store->set = vp_file_set_create();
    if (!store || !store->set)
        st = vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", idx_path);
    if (st == VP_OK) {
        store->shard.set = store->set;
        st = vp_token_shard_open_indexed(&store->shard, idx_path, err);
    }
    if (st != VP_OK) {
        vp_store_close(store);
        return st;
    }
    store->shard.vocab = vocab;
    *out = store;
    return VP_OK;
}

void vp_store_close(struct vp_store *store)
{
    if (!store)
        return;
    vp_file_set_free(store->set);
    free(store);
}

int64_t vp_store_documents(const struct vp_store *store)
{
    return store->shard.index.n_documents;
}

static enum vp_status load(const struct vp_store *store, int64_t document,
                           struct vp_document_text *out, struct vp_err *err)
{
    const struct vp_token_index *index = &store->shard.index;
    int64_t first, end, begin;

    VP_TRY(vp_token_index_first(store->set, index, document, &first, err));
    VP_TRY(vp_token_index_first(store->set, index, document + 1, &end, err));
    if (end <= first || end - first > VP_STORE_DOCUMENT_SENTENCES)
        return vp_err_set(err, VP_ERR_INVALID,
                          "document %lld: %lld sentences; make the store anew",
                          (long long)document, (long long)(end - first));
    out->n = (int)(end - first);
    VP_TRY(
        vp_token_index_sizes(store->set, index, first, out->n, out->size, err));
    for (int i = 0; i < out->n; i++) {
        if (out->size[i] < 1 || out->size[i] > VP_STORE_SENTENCE_TOKENS)
            return vp_err_set(err, VP_ERR_INVALID,
                              "document %lld: a sentence of %lld tokens; make "
                              "the store anew",
                              (long long)document, (long long)out->size[i]);
        out->start[i + 1] = out->start[i] + out->size[i];
    }
    out->number = document;
    VP_TRY(vp_token_index_begin(store->set, index, first, &begin, err));
    return vp_token_shard_stored(&store->shard, begin, out->start[out->n],
                                 out->ids, err);
}

bool vp_bert_is_valid(const struct vp_bert_options *options, int64_t document)
{
    int64_t place = document % VP_CORPUS_PARTS;

    return (place + 1) * options->valid_parts / VP_CORPUS_PARTS >
           place * options->valid_parts / VP_CORPUS_PARTS;
}

/* ---- Rows --------------------------------------------------------------- */

void vp_bert_rows_release(struct vp_bert_rows *rows)
{
    free(rows->values);
    *rows = (struct vp_bert_rows){ 0 };
}

void vp_bert_rows_get(const struct vp_bert_rows *rows,
                      const struct vp_bert_options *options, int64_t i,
                      struct vp_bert_row *out)
{
    int32_t *values = rows->values + i * rows->stride;

    out->n_tokens = values[0];
    out->n_first = values[1];
    out->n_labels = values[2];
    out->is_random = values[3];
    out->tokens = values + 4;
    out->positions = out->tokens + options->seq;
    out->labels = out->positions + options->max_pred;
}

/* Adds a row of zeros. Returns NULL if out of memory. */
static int32_t *add_row(struct vp_bert_rows *rows,
                        const struct vp_bert_options *options)
{
    rows->stride = 4 + options->seq + 2 * options->max_pred;
    if (rows->n == rows->capacity) {
        int64_t capacity = 2 * rows->capacity + 64;
        int32_t *values = realloc(
            rows->values, (size_t)(capacity * rows->stride) * sizeof(*values));

        if (!values)
            return NULL;
        rows->values = values;
        rows->capacity = capacity;
    }
    return memset(rows->values + rows->n++ * rows->stride, 0,
                  (size_t)rows->stride * sizeof(int32_t));
}

/* ---- Choices ------------------------------------------------------------ */

struct making {
    struct vp_bert_maker *maker;
    const struct vp_store *store;
    const struct vp_bert_options *options;
    int64_t dupe;
    uint32_t n_draws;
    uint32_t n_samples; /* samples of the document so far */
    struct vp_bert_rows *rows;
};

static struct vp_rng4 draw(struct making *making)
{
    return vp_rng(making->options->seed, VP_RNG_SENTENCES,
                  (uint32_t)making->dupe, making->n_draws++, 0,
                  (uint64_t)making->maker->own->number);
}

static bool draw_share(struct making *making, double share)
{
    return vp_rng_unit(draw(making).v[0]) < share;
}

static int64_t draw_below(struct making *making, int64_t n)
{
    return (int64_t)vp_rng_below(draw(making).v[0], (uint32_t)n);
}

/* Returns the number of text tokens that the next sample should have. */
static int64_t draw_length(struct making *making)
{
    int64_t most = making->options->seq - EXTRA;

    if (!draw_share(making, making->options->short_share))
        return most;
    return 2 + draw_below(making, most - 1);
}

/* Returns the number of documents for evaluation among the first `n`; see
 * vp_bert_is_valid(). */
static int64_t count_valid(const struct vp_bert_options *options, int64_t n)
{
    return n / VP_CORPUS_PARTS * options->valid_parts +
           n % VP_CORPUS_PARTS * options->valid_parts / VP_CORPUS_PARTS;
}

/* Returns the k-th document for evaluation. */
static int64_t find_valid(const struct vp_bert_options *options, int64_t k)
{
    int64_t parts = options->valid_parts;
    int64_t place = ((k % parts + 1) * VP_CORPUS_PARTS + parts - 1) / parts;

    return k / parts * VP_CORPUS_PARTS + place - 1;
}

/* Loads another random document of the same split, or the same document after
 * TRIES failures. Documents for evaluation are few, so they are drawn by their
 * index among them and not from all documents. */
static enum vp_status draw_document(struct making *making, struct vp_err *err)
{
    const struct vp_bert_options *options = making->options;
    struct vp_document_text *own = making->maker->own;
    int64_t n = vp_store_documents(making->store), other = own->number;
    bool valid = vp_bert_is_valid(options, own->number);

    if (valid)
        n = count_valid(options, n);
    for (int i = 0; i < TRIES; i++) {
        struct vp_rng4 r = draw(making);
        int64_t document = (int64_t)(((uint64_t)r.v[0] << 32 | r.v[1]) %
                                     (uint64_t)n);

        if (valid)
            document = find_valid(options, document);
        if (document != own->number &&
            vp_bert_is_valid(options, document) == valid) {
            other = document;
            break;
        }
    }
    return load(making->store, other, making->maker->other, err);
}

/* ---- Samples ------------------------------------------------------------ */

/* Tokens [begin, end) of a document. */
struct part {
    const struct vp_document_text *text;
    int64_t begin, end;
};

/* Removes tokens until both parts together have at most `most`: always from the
 * longer part, at its front or its end by chance. */
static void shorten(struct making *making, struct part *a, struct part *b,
                    int64_t most)
{
    int64_t n_drop = (a->end - a->begin) + (b->end - b->begin) - most;
    struct vp_rng4 r = { { 0 } };

    for (int64_t i = 0; i < n_drop; i++) {
        struct part *longer = a->end - a->begin > b->end - b->begin ? a : b;

        if (i % 128 == 0)
            r = draw(making);
        if (r.v[i / 32 % 4] >> (i % 32) & 1)
            longer->begin++;
        else
            longer->end--;
    }
}

static int32_t *put_part(int32_t *to, const struct part *part)
{
    int64_t n = part->end - part->begin;

    memcpy(to, part->text->ids + part->begin, (size_t)n * sizeof(*to));
    return to + n;
}

static enum vp_status put_sample(struct making *making, struct part *a,
                                 struct part *b, bool is_random,
                                 struct vp_err *err)
{
    const struct vp_bert_options *options = making->options;
    struct vp_mask_key key = { options->seed,
                               (uint64_t)making->maker->own->number,
                               (uint32_t)making->dupe << 12 |
                                   making->n_samples++ };
    int32_t *values, *tokens, *at;
    int64_t n_scored;

    shorten(making, a, b, options->seq - EXTRA);
    values = add_row(making->rows, options);
    if (!values)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory for samples; use "
                          "fewer threads");
    tokens = values + 4;
    tokens[0] = options->ids.cls;
    at = put_part(tokens + 1, a);
    *at++ = options->ids.sep;
    values[1] = (int32_t)(at - tokens);
    at = put_part(at, b);
    *at++ = options->ids.sep;
    values[0] = (int32_t)(at - tokens);
    values[3] = is_random;
    n_scored = vp_bert_n_scored(values[0], options->mask_share,
                                options->max_pred);
    values[2] = (int32_t)vp_bert_mask(
        &options->ids, &key, values[1], values[0], n_scored, tokens,
        tokens + options->seq, tokens + options->seq + options->max_pred);
    return VP_OK;
}

/* Takes a second part from another document, from a random sentence on, with at
 * least `n_wanted` tokens if the document has them after it. */
static enum vp_status take_random(struct making *making, int64_t n_wanted,
                                  struct part *b, struct vp_err *err)
{
    const struct vp_document_text *other;
    int sentence, end;

    VP_TRY(draw_document(making, err));
    other = making->maker->other;
    sentence = end = (int)draw_below(making, other->n);
    while (end < other->n &&
           (end == sentence ||
            other->start[end] - other->start[sentence] < n_wanted))
        end++;
    *b = (struct part){ other, other->start[sentence], other->start[end] };
    return VP_OK;
}

/* Makes a sample of about `target` tokens from sentences [first, end) of the
 * document. Sets *used_out to the first sentence of the next sample. */
static enum vp_status make_sample(struct making *making, int first, int end,
                                  int64_t target, int *used_out,
                                  struct vp_err *err)
{
    const struct vp_document_text *own = making->maker->own;
    struct part a = { own, own->start[first], own->start[end] }, b;
    int n_first = 1;
    bool is_random;

    *used_out = end;
    if (end - first >= 2)
        n_first = 1 + (int)draw_below(making, end - first - 1);
    is_random = making->options->random_next > 0 &&
                (end - first == 1 ||
                 draw_share(making, making->options->random_next));
    if (is_random) {
        a.end = own->start[first + n_first];
        VP_TRY(take_random(making, target - (a.end - a.begin), &b, err));
        *used_out = first + n_first;
        /* draw_document() may have found only the same document. */
        is_random = b.text->number != own->number;
        return put_sample(making, &a, &b, is_random, err);
    }
    if (end - first == 1 && a.end - a.begin < 2)
        return VP_OK; /* one token cannot be divided */
    b = a;
    a.end = b.begin = end - first == 1 ? (a.begin + a.end + 1) / 2
                                       : own->start[first + n_first];
    return put_sample(making, &a, &b, false, err);
}

static enum vp_status make_samples(struct making *making, struct vp_err *err)
{
    const struct vp_document_text *own = making->maker->own;
    int64_t target = draw_length(making);
    int first = 0;

    for (int i = 0; i < own->n; i++) {
        if (i + 1 < own->n && own->start[i + 1] - own->start[first] < target)
            continue;
        VP_TRY(make_sample(making, first, i + 1, target, &first, err));
        i = first - 1;
    }
    return VP_OK;
}

/* ---- The whole ---------------------------------------------------------- */

void vp_bert_maker_release(struct vp_bert_maker *maker)
{
    free(maker->own);
    free(maker->other);
    *maker = (struct vp_bert_maker){ NULL, NULL };
}

enum vp_status vp_bert_make(struct vp_bert_maker *maker,
                            const struct vp_store *store,
                            const struct vp_bert_options *options,
                            int64_t document, int64_t dupe,
                            struct vp_bert_rows *rows, struct vp_err *err)
{
    struct making making = { maker, store, options, dupe, 0, 0, rows };

    if (!maker->own)
        maker->own = calloc(1, sizeof(*maker->own));
    if (!maker->other)
        maker->other = calloc(1, sizeof(*maker->other));
    if (!maker->own || !maker->other)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "out of memory for documents; use "
                          "fewer threads");
    VP_TRY(load(store, document, maker->own, err));
    return make_samples(&making, err);
}
