/* Source for masked LM on sentences: indexed files of Megatron-LM with one
 * sequence per sentence. Adjacent sentences of a document fill a sample,
 *
 *   [CLS] A [SEP] B [SEP]    the border of A and B is between two sentences
 *
 * and tokens are masked when a batch is made, different ones in every epoch.
 * The sentences of a sample are fixed, which allows random access: the first
 * sentence of every STEP-th sample is kept in memory, and others are found by
 * walking from there. */
#include "base/rng.h"
#include "data/bert/mask.h"
#include "data/internal.h"
#include "data/tokens/find.h"
#include "data/tokens/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXTRA = 3,
    STEP = 32,
    BUFFER = 256,           /* index entries per read */
    BLOCK_BYTES = 16 << 20, /* size of the samples of one block */
    SURVEY = 4096,          /* samples in which labels are counted */
};

/* The start of a sample. */
struct place {
    int64_t document, sentence;
    int64_t offset; /* tokens of the sentence that precede the sample */
};

struct part {
    struct vp_token_shard shard;
    struct place *places; /* starts of its samples 0, STEP, 2 STEP, ... */
    int64_t n_places, capacity;
    int64_t first, n; /* number of the first sample; samples in this file */
};

struct packed_state {
    struct vp_file_set *set;
    struct part *part;
    int n_parts;
    struct vp_bert_ids ids;
    int64_t seq, max_pred;
    double mask_share, random_next;
    uint64_t seed;
    enum vp_data_split split;
    bool is_split;
    int64_t n_samples;
};

static enum vp_status fail_memory(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
}

/* ---- Walking ------------------------------------------------------------ */

/* A walk over the sentences of a file, with buffered index entries. */
struct walk {
    const struct vp_token_shard *shard;
    struct place place;
    int64_t size[BUFFER]; /* lengths of sentences from first_size on */
    int64_t first_size, n_sizes;
    int64_t first[BUFFER]; /* first sentences of documents, from
                              first_document on */
    int64_t first_document, n_firsts;
};

/* The tokens of a sample in the file. */
struct chunk {
    int64_t sentence, offset; /* position of the first token */
    int64_t n, n_a;           /* number of tokens, and of those in A */
};

static void begin_walk(struct walk *walk, const struct vp_token_shard *shard,
                       const struct place *place)
{
    walk->shard = shard;
    walk->place = *place;
    walk->n_sizes = walk->n_firsts = 0;
}

static enum vp_status size_of(struct walk *walk, int64_t sentence, int64_t *out,
                              struct vp_err *err)
{
    const struct vp_token_index *index = &walk->shard->index;

    if (walk->n_sizes == 0 || sentence < walk->first_size ||
        sentence >= walk->first_size + walk->n_sizes) {
        int64_t n = index->n_sequences - sentence;

        walk->n_sizes = 0;
        n = n < BUFFER ? n : BUFFER;
        VP_TRY(vp_token_index_sizes(walk->shard->set, index, sentence, n,
                                    walk->size, err));
        walk->first_size = sentence;
        walk->n_sizes = n;
    }
    *out = walk->size[sentence - walk->first_size];
    return VP_OK;
}

/* Reads the first sentence of a document. For document n_documents this is the
 * number of sentences. */
static enum vp_status first_of(struct walk *walk, int64_t document,
                               int64_t *out, struct vp_err *err)
{
    const struct vp_token_index *index = &walk->shard->index;

    if (walk->n_firsts == 0 || document < walk->first_document ||
        document >= walk->first_document + walk->n_firsts) {
        int64_t n = index->n_documents + 1 - document;

        walk->n_firsts = 0;
        n = n < BUFFER ? n : BUFFER;
        VP_TRY(vp_token_index_firsts(walk->shard->set, index, document, n,
                                     walk->first, err));
        walk->first_document = document;
        walk->n_firsts = n;
    }
    *out = walk->first[document - walk->first_document];
    return VP_OK;
}

/* Adds sentences up to sentence `end`, the end of the document, while they fit
 * into `room` tokens. A sentence that is longer than a sample is divided. Each
 * border of two sentences is equally likely to be that of A and B (reservoir
 * sampling). */
static enum vp_status fill_chunk(struct walk *walk, int64_t end, int64_t room,
                                 uint64_t seed, uint64_t key,
                                 struct chunk *chunk, struct vp_err *err)
{
    struct place *place = &walk->place;
    uint32_t n_borders = 0;

    *chunk = (struct chunk){ place->sentence, place->offset, 0, 0 };
    while (place->sentence < end && chunk->n < room) {
        int64_t size = 0, left;

        VP_TRY(size_of(walk, place->sentence, &size, err));
        left = size - place->offset;
        if (chunk->n > 0 && chunk->n + left > room)
            break;
        if (chunk->n > 0 && left > 0) {
            struct vp_rng4 r = vp_rng(seed, VP_RNG_SENTENCES, 0, n_borders++, 1,
                                      key);

            if (vp_rng_below(r.v[0], n_borders) == 0)
                chunk->n_a = chunk->n;
        }
        if (left > room) {
            chunk->n = room;
            place->offset += room;
            break;
        }
        chunk->n += left;
        place->sentence++;
        place->offset = 0;
    }
    if (n_borders == 0)
        chunk->n_a = (chunk->n + 1) / 2;
    return VP_OK;
}

/* Finds the next sample from the walk's place on. chunk->n is 0 after the last.
 * A single token is skipped, because it cannot be divided into A and B. */
static enum vp_status next_chunk(struct walk *walk, int64_t room, uint64_t seed,
                                 uint64_t key, struct chunk *chunk,
                                 struct vp_err *err)
{
    struct place *place = &walk->place;
    int64_t end = 0;

    chunk->n = 0;
    while (place->document < walk->shard->index.n_documents) {
        VP_TRY(first_of(walk, place->document + 1, &end, err));
        if (place->sentence >= end) {
            place->document++;
            place->offset = 0;
            continue;
        }
        VP_TRY(fill_chunk(walk, end, room, seed, key, chunk, err));
        if (chunk->n >= 2)
            return VP_OK;
        chunk->n = 0;
    }
    return VP_OK;
}

/* ---- Opening ------------------------------------------------------------ */

static enum vp_status add_place(struct part *part, const struct place *place,
                                const char *path, struct vp_err *err)
{
    if (part->n_places == part->capacity) {
        int64_t capacity = 2 * part->capacity + 64;
        struct place *grown = realloc(part->places,
                                      (size_t)capacity * sizeof(*grown));

        if (!grown)
            return fail_memory(path, err);
        part->places = grown;
        part->capacity = capacity;
    }
    part->places[part->n_places++] = *place;
    return VP_OK;
}

/* Walks over the whole file once to count its samples and store places. */
static enum vp_status find_samples(const struct packed_state *state,
                                   struct part *part, const char *path,
                                   struct vp_err *err)
{
    struct place place = { 0, 0, 0 };
    struct chunk chunk;
    struct walk walk;

    begin_walk(&walk, &part->shard, &place);
    for (;;) {
        place = walk.place;
        VP_TRY(next_chunk(&walk, state->seq - EXTRA, 0, 0, &chunk, err));
        if (chunk.n == 0)
            return VP_OK;
        if (part->n++ % STEP == 0)
            VP_TRY(add_place(part, &place, path, err));
    }
}

static enum vp_status open_part(const struct vp_data_config *config,
                                const char *path, struct packed_state *state,
                                struct vp_source *source, struct vp_err *err)
{
    struct part *part = &state->part[state->n_parts];

    part->shard.set = state->set;
    VP_TRY(vp_token_shard_open_indexed(&part->shard, path, err));
    if (part->shard.index.layout != VP_INDEX_MEGATRON)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is not an index of Megatron-LM, which stores "
                          "where documents begin; set data_dir to such files, "
                          "or to text",
                          path);
    part->shard.vocab = config->vocab ? config->vocab
                                      : vp_item_vocab(part->shard.item);
    VP_TRY(vp_token_shard_check(&part->shard, err));
    if (part->shard.vocab > source->vocab)
        source->vocab = part->shard.vocab;
    state->n_parts++;
    part->first = state->n_samples;
    VP_TRY(find_samples(state, part, path, err));
    state->n_samples += part->n;
    return VP_OK;
}

static enum vp_status open_parts(const struct vp_data_config *config,
                                 const struct vp_token_files *files,
                                 struct packed_state *state,
                                 struct vp_source *source, struct vp_err *err)
{
    int64_t n_tokens = 0, n_sentences = 0, n_documents = 0, block;

    state->part = calloc((size_t)files->n, sizeof(*state->part));
    if (!state->part)
        return fail_memory(config->path, err);
    for (int i = 0; i < files->n; i++) {
        VP_TRY(open_part(config, files->path[i], state, source, err));
        n_tokens += state->part[i].shard.n_stored;
        n_sentences += state->part[i].shard.index.n_sequences;
        n_documents += state->part[i].shard.index.n_documents;
    }
    if (state->n_samples == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: no document has two tokens; add text",
                          config->path);
    state->ids.vocab = source->vocab;
    block = BLOCK_BYTES / (state->seq * 4) / 10 * 10;
    source->block = block > 10 ? block : 10;
    source->n_survey = SURVEY;
    source->n_samples = state->n_samples;
    snprintf(source->what, sizeof(source->what),
             "sentences: %lld documents, %lld sentences, %lld tokens",
             (long long)n_documents, (long long)n_sentences,
             (long long)n_tokens);
    return VP_OK;
}

static void packed_close(struct vp_source *source)
{
    struct packed_state *state = source->state;

    for (int i = 0; state->part && i < state->n_parts; i++)
        free(state->part[i].places);
    vp_file_set_free(state->set);
    free(state->part);
    free(state);
}

static enum vp_status check_use(const struct vp_data_config *config,
                                struct vp_err *err)
{
    if (!config->has_special)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: token files do not store the ids of [CLS], "
                          "[SEP] and [MASK]; set tokenizer to the one that "
                          "they were made with",
                          config->path);
    if (config->dims[0].seq >= EXTRA + 2)
        return VP_OK;
    return vp_err_refuse(err, "seq_length",
                         "masked LM: seq_length is %lld, but %d positions are "
                         "special; set it to %d or more",
                         (long long)config->dims[0].seq, EXTRA, EXTRA + 2);
}

static enum vp_status packed_open(const struct vp_data_config *config,
                                  const struct vp_data_window *window,
                                  struct vp_source *source, struct vp_err *err)
{
    struct vp_token_files files;
    struct packed_state *state;
    enum vp_status st;

    (void)window;
    VP_TRY(check_use(config, err));
    state = calloc(1, sizeof(*state));
    if (!state)
        return fail_memory(config->path, err);
    source->state = state;
    source->pad = config->pad_token;
    state->ids = (struct vp_bert_ids){ config->pad_token, config->cls_token,
                                       config->sep_token, config->mask_token,
                                       0 };
    state->seq = config->dims[0].seq;
    state->max_pred = config->dims[0].n_labels / config->dims[0].batch;
    state->mask_share = (double)config->mask_prob;
    state->random_next = (double)config->random_next;
    state->seed = config->seed;
    state->split = config->split;
    state->set = vp_file_set_create();
    st = state->set ? vp_token_files_find(config, true, &files, err)
                    : fail_memory(config->path, err);
    if (state->set) {
        if (st == VP_OK)
            st = open_parts(config, &files, state, source, err);
        source->is_split = state->is_split = files.is_split || config->whole;
        vp_token_files_release(&files);
    }
    if (st != VP_OK)
        packed_close(source);
    return st;
}

/* ---- Samples ------------------------------------------------------------ */

static const struct part *part_of(const struct packed_state *state, int64_t i)
{
    int low = 0, high = state->n_parts;

    while (high - low > 1) {
        int middle = low + (high - low) / 2;

        if (state->part[middle].first <= i)
            low = middle;
        else
            high = middle;
    }
    return &state->part[low];
}

/* Finds sample `i`; `key` chooses its border of A and B. */
static enum vp_status find_chunk(const struct packed_state *state, int64_t i,
                                 uint64_t key, const struct part **part_out,
                                 struct chunk *chunk, struct vp_err *err)
{
    const struct part *part = part_of(state, i);
    int64_t k = i - part->first;
    struct walk walk;

    begin_walk(&walk, &part->shard, &part->places[k / STEP]);
    for (int64_t n = k % STEP; n >= 0; n--) {
        VP_TRY(next_chunk(&walk, state->seq - EXTRA, state->seed, key, chunk,
                          err));
        if (chunk->n == 0)
            return vp_err_set(
                err, VP_ERR_IO,
                "%s: was changed while in use; put the old file "
                "back and resume",
                vp_file_set_path(state->set, part->shard.index.file));
    }
    *part_out = part;
    return VP_OK;
}

/* Reads tokens [first, first + n) of a sample. */
static enum vp_status read_ids(const struct packed_state *state,
                               const struct part *part,
                               const struct chunk *chunk, int64_t first,
                               int64_t n, int32_t *out, struct vp_err *err)
{
    int64_t begin = 0;

    VP_TRY(vp_token_index_begin(state->set, &part->shard.index, chunk->sentence,
                                &begin, err));
    return vp_token_shard_stored(&part->shard, begin + chunk->offset + first, n,
                                 out, err);
}

/* Returns a random sample of the split other than `i`. */
static int64_t draw_other(const struct packed_state *state, int64_t i,
                          struct vp_rng4 r)
{
    int64_t n = state->is_split
                    ? state->n_samples
                    : vp_split_count(state->split, state->n_samples);
    int64_t k = (int64_t)(((uint64_t)r.v[1] << 32 | r.v[2]) % (uint64_t)n);
    int64_t other = state->is_split ? k : vp_split_sample(state->split, k);

    if (other == i)
        other = state->is_split ? (k + 1) % n
                                : vp_split_sample(state->split, (k + 1) % n);
    return other;
}

/* Writes [CLS] A [SEP] B [SEP]. *n_first_out: length of [CLS] A [SEP]; *n_out:
 * length of all. */
static enum vp_status put_parts(const struct packed_state *state, int64_t i,
                                uint64_t key, int32_t *tokens,
                                int64_t *n_first_out, int64_t *n_out,
                                struct vp_err *err)
{
    struct vp_rng4 r = vp_rng(state->seed, VP_RNG_SENTENCES, 0, 0, 2, key);
    const struct part *part = NULL, *part_b;
    struct chunk a = { 0, 0, 0, 0 }, b;
    int64_t first_b, n_b, at;

    VP_TRY(find_chunk(state, i, key, &part, &a, err));
    part_b = part;
    b = a;
    first_b = a.n_a;
    n_b = a.n - a.n_a;
    if (vp_rng_unit(r.v[0]) < state->random_next) {
        VP_TRY(
            find_chunk(state, draw_other(state, i, r), key, &part_b, &b, err));
        first_b = b.n_a;
        n_b = b.n - b.n_a;
        if (n_b > state->seq - EXTRA - a.n_a)
            n_b = state->seq - EXTRA - a.n_a;
    }
    tokens[0] = state->ids.cls;
    VP_TRY(read_ids(state, part, &a, 0, a.n_a, tokens + 1, err));
    at = 1 + a.n_a;
    tokens[at++] = state->ids.sep;
    *n_first_out = at;
    VP_TRY(read_ids(state, part_b, &b, first_b, n_b, tokens + at, err));
    at += n_b;
    tokens[at++] = state->ids.sep;
    *n_out = at;
    return VP_OK;
}

static enum vp_status packed_masked(const struct vp_source *source, int64_t i,
                                    struct vp_masked *out, struct vp_err *err)
{
    const struct packed_state *state = source->state;
    struct vp_mask_key key = { state->seed, out->key, 0 };
    int64_t n_first = 0, n = 0;

    VP_TRY(put_parts(state, i, out->key, out->tokens, &n_first, &n, err));
    out->n_labels = vp_bert_mask(
        &state->ids, &key, n_first, n,
        vp_bert_n_scored(n, state->mask_share, state->max_pred), out->tokens,
        out->positions, out->labels);
    for (int64_t t = 0; out->types && t < n; t++)
        out->types[t] = t >= n_first;
    for (int64_t t = 0; out->mask && t < n; t++)
        out->mask[t] = 1;
    out->n_tokens = n;
    return VP_OK;
}

const struct vp_source_ops vp_source_packed = {
    .name = "sentences",
    .open = packed_open,
    .close = packed_close,
    .masked = packed_masked,
};
