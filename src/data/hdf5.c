/* The source of HDF5 shards: blocks of rows in memory, checks of their values,
 * samples. */
#include "data/hdf5.h"

#include "data/hdf5_bytes.h"
#include "data/hdf5_file.h"
#include "data/sampler.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 8 << 20,
    N_HELD = 2 * VP_SAMPLER_MIX, /* blocks kept in memory */
    N_SURVEY = VP_SAMPLER_MIX,   /* blocks in which labels are counted */
    MAX_VOCAB = 1 << 24,
};

/* Bits of a token in memory: id, segment (1 bit), input_mask (1 bit). */
enum { TYPE_SHIFT = 29, MASK_SHIFT = 30, ID_MASK = (1 << TYPE_SHIFT) - 1 };

/* Consecutive rows, counted across all shards. */
struct block {
    int64_t number;     /* -1: empty */
    uint64_t used;      /* `clock` at the last use */
    int32_t *words;     /* [rows, seq] */
    int32_t *positions; /* [rows, n_pred] */
    int32_t *labels;    /* [rows, n_pred] */
    int32_t *n_labels;  /* [rows] */
};

struct hdf5_state {
    struct vp_shards shards;
    int64_t n_rows, seq, n_pred, vocab;
    int64_t block_rows;
    int n_held;
    int32_t *memory; /* one allocation for all blocks */

    pthread_mutex_t lock;      /* guards the fields below */
    struct block held[N_HELD]; /* the first n_held are used */
    int32_t *raw;              /* rows of one data set as libhdf5 reads them */
    uint64_t clock;
};

/* Rows of one shard that are read into a block. */
struct part {
    const struct vp_shard *shard;
    int64_t row, n_rows; /* first row in the shard, number of rows */
    int64_t at;          /* first row in the block */
};

static enum vp_status fail_memory(const char *path, struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "%s: out of memory", path);
}

/* ---- Reading blocks ----------------------------------------------------- */

/* i: row of the part; k: index in the row. */
static enum vp_status fail_value(const struct part *part, enum vp_shard_set set,
                                 int64_t i, int64_t k, int32_t value,
                                 int64_t n_values, struct vp_err *err)
{
    bool is_id = set == VP_SHARD_IDS || set == VP_SHARD_LABELS;

    return vp_err_set(err, VP_ERR_INVALID,
                      "%s: %s, row %lld: %d at place %lld is not in 0 to %lld; "
                      "%s" VP_H5_ANEW,
                      part->shard->path, vp_shard_sets[set],
                      (long long)(part->row + i), value, (long long)k,
                      (long long)n_values - 1,
                      is_id ? "set vocab to that of the shards, or " : "");
}

/* Checks state->raw, [n_rows, seq], and merges it into the words of the
 * block. */
static enum vp_status pack_words(const struct hdf5_state *state,
                                 const struct part *part, enum vp_shard_set set,
                                 struct block *block, struct vp_err *err)
{
    int64_t n_values = set == VP_SHARD_IDS ? state->vocab : 2;
    int shift = set == VP_SHARD_MASK ? MASK_SHIFT : TYPE_SHIFT;
    int32_t *words = block->words + part->at * state->seq;

    for (int64_t i = 0; i < part->n_rows * state->seq; i++) {
        int32_t value = state->raw[i];

        if (value < 0 || value >= n_values)
            return fail_value(part, set, i / state->seq, i % state->seq, value,
                              n_values, err);
        words[i] = set == VP_SHARD_IDS ? value : words[i] | value << shift;
    }
    return VP_OK;
}

static bool is_among(int32_t value, const int32_t *values, int64_t n)
{
    int64_t i = 0;

    while (i < n && values[i] != value)
        i++;
    return i < n;
}

/* Checks and copies the positions of row `i` up to the first 0; sets
 * n_labels. */
static enum vp_status pack_positions(const struct hdf5_state *state,
                                     const struct part *part, int64_t i,
                                     struct block *block, struct vp_err *err)
{
    const int32_t *raw = state->raw + i * state->n_pred;
    int32_t *out = block->positions + (part->at + i) * state->n_pred;
    bool ascends = true; /* the usual case, in which no position repeats */
    int32_t k = 0;

    for (; k < state->n_pred && raw[k] != 0; k++) {
        if (raw[k] < 0 || raw[k] >= state->seq)
            return fail_value(part, VP_SHARD_POSITIONS, i, k, raw[k],
                              state->seq, err);
        ascends = ascends && (k == 0 || raw[k] > raw[k - 1]);
        if (!ascends && is_among(raw[k], raw, k))
            return vp_err_set(
                err, VP_ERR_INVALID,
                "%s: %s, row %lld: %d at place %d occurs twice; " VP_H5_ANEW,
                part->shard->path, vp_shard_sets[VP_SHARD_POSITIONS],
                (long long)(part->row + i), raw[k], k);
        out[k] = raw[k];
    }
    block->n_labels[part->at + i] = k;
    return VP_OK;
}

/* Checks and copies the labels of row `i`, one for each of its positions. */
static enum vp_status pack_labels(const struct hdf5_state *state,
                                  const struct part *part, int64_t i,
                                  struct block *block, struct vp_err *err)
{
    const int32_t *raw = state->raw + i * state->n_pred;
    int32_t *out = block->labels + (part->at + i) * state->n_pred;

    for (int32_t k = 0; k < block->n_labels[part->at + i]; k++) {
        if (raw[k] < 0 || raw[k] >= state->vocab)
            return fail_value(part, VP_SHARD_LABELS, i, k, raw[k], state->vocab,
                              err);
        out[k] = raw[k];
    }
    return VP_OK;
}

static enum vp_status pack(const struct hdf5_state *state,
                           const struct part *part, enum vp_shard_set set,
                           struct block *block, struct vp_err *err)
{
    if (set < VP_SHARD_POSITIONS)
        return pack_words(state, part, set, block, err);
    for (int64_t i = 0; i < part->n_rows; i++)
        VP_TRY(set == VP_SHARD_POSITIONS
                   ? pack_positions(state, part, i, block, err)
                   : pack_labels(state, part, i, block, err));
    return VP_OK;
}

static enum vp_status read_part(struct hdf5_state *state,
                                const struct part *part, struct block *block,
                                struct vp_err *err)
{
    struct vp_shard_file file;
    enum vp_status st;

    VP_TRY(vp_shard_open(part->shard, &file, err));
    for (int set = 0; set < VP_SHARD_SETS; set++) {
        st = vp_shard_read(&file, set, part->row, part->n_rows, state->raw,
                           err);
        if (st == VP_OK)
            st = pack(state, part, set, block, err);
        if (st != VP_OK)
            break;
    }
    vp_shard_close(&file);
    return st;
}

static enum vp_status read_block(struct hdf5_state *state, int64_t number,
                                 struct block *block, struct vp_err *err)
{
    int64_t row = number * state->block_rows, end = row + state->block_rows;
    struct part part = { .shard = state->shards.shard, .row = row };

    block->number = -1;
    end = end < state->n_rows ? end : state->n_rows;
    for (; part.row >= part.shard->n_rows; part.shard++)
        part.row -= part.shard->n_rows;
    for (; row < end; row += part.n_rows) {
        part.n_rows = part.shard->n_rows - part.row;
        if (part.n_rows > end - row)
            part.n_rows = end - row;
        VP_TRY(read_part(state, &part, block, err));
        part.at += part.n_rows;
        part.shard++;
        part.row = 0;
    }
    block->number = number;
    return VP_OK;
}

/* Returns a block from memory, or reads it into the least recently used place.
 * The caller holds `lock`. */
static enum vp_status hold_block(struct hdf5_state *state, int64_t number,
                                 const struct block **out, struct vp_err *err)
{
    struct block *oldest = &state->held[0];

    state->clock++;
    for (int i = 0; i < state->n_held; i++) {
        struct block *block = &state->held[i];

        if (block->number == number) {
            block->used = state->clock;
            *out = block;
            return VP_OK;
        }
        if (block->used < oldest->used)
            oldest = block;
    }
    VP_TRY(read_block(state, number, oldest, err));
    oldest->used = state->clock;
    *out = oldest;
    return VP_OK;
}

/* ---- Samples ------------------------------------------------------------ */

static void unpack(const struct hdf5_state *state, const struct block *block,
                   int64_t row, struct vp_masked *out)
{
    const int32_t *words = block->words + row * state->seq;
    size_t n_bytes;

    out->n_tokens = 0;
    for (int64_t t = 0; t < state->seq; t++) {
        int32_t mask = words[t] >> MASK_SHIFT & 1;

        if (out->tokens)
            out->tokens[t] = words[t] & ID_MASK;
        if (out->types)
            out->types[t] = words[t] >> TYPE_SHIFT & 1;
        if (out->mask)
            out->mask[t] = mask;
        out->n_tokens += mask;
    }
    out->n_labels = block->n_labels[row];
    n_bytes = (size_t)out->n_labels * sizeof(int32_t);
    if (out->positions)
        memcpy(out->positions, block->positions + row * state->n_pred, n_bytes);
    if (out->labels)
        memcpy(out->labels, block->labels + row * state->n_pred, n_bytes);
}

static enum vp_status hdf5_masked(const struct vp_source *source, int64_t i,
                                  struct vp_masked *out, struct vp_err *err)
{
    struct hdf5_state *state = source->state;
    const struct block *block;
    enum vp_status st;

    pthread_mutex_lock(&state->lock);
    st = hold_block(state, i / state->block_rows, &block, err);
    if (st == VP_OK)
        unpack(state, block, i % state->block_rows, out);
    pthread_mutex_unlock(&state->lock);
    return st;
}

static void hdf5_ahead(const struct vp_source *source, int64_t i)
{
    struct hdf5_state *state = source->state;
    const struct block *block;

    pthread_mutex_lock(&state->lock);
    hold_block(state, i / state->block_rows, &block, NULL);
    pthread_mutex_unlock(&state->lock);
}

/* ---- Opening ------------------------------------------------------------ */

/* Checks that all shards have the same row lengths, and counts their rows. */
static enum vp_status check_shards(struct hdf5_state *state, struct vp_err *err)
{
    const struct vp_shard *first = &state->shards.shard[0];

    for (int i = 0; i < state->shards.n; i++) {
        struct vp_shard *shard = &state->shards.shard[i];

        VP_TRY(vp_shard_check(shard, err));
        if (shard->seq != first->seq || shard->n_pred != first->n_pred)
            return vp_err_set(err, VP_ERR_INVALID,
                              "%s: input_ids: has rows of %lld tokens and %lld "
                              "labels, but %s of %lld and %lld; keep shards of "
                              "one length in data_dir",
                              shard->path, (long long)shard->seq,
                              (long long)shard->n_pred, first->path,
                              (long long)first->seq, (long long)first->n_pred);
        state->n_rows += shard->n_rows;
    }
    state->seq = first->seq;
    state->n_pred = first->n_pred;
    return VP_OK;
}

/* Checks that the shards fit the configuration. */
static enum vp_status check_config(const struct hdf5_state *state,
                                   const struct vp_data_config *config,
                                   struct vp_err *err)
{
    const struct vp_dims *last = &config->dims[config->n_dims - 1];
    const char *path = state->shards.shard[0].path;
    int64_t most = state->n_pred < state->seq ? state->n_pred : state->seq;

    if (state->seq > last->seq)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: input_ids: has sequences of %lld tokens, but "
                          "seq_length is %lld; set seq_length to %lld",
                          path, (long long)state->seq, (long long)last->seq,
                          (long long)state->seq);
    if (most * last->batch > last->n_labels)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: masked_lm_ids: has up to %lld labels a row, but "
                          "there is room for %lld; set max_pred to %lld",
                          path, (long long)most,
                          (long long)(last->n_labels / last->batch),
                          (long long)most);
    if (config->split == VP_DATA_EVAL && !state->shards.is_split &&
        state->n_rows < 10)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: input_ids: %lld rows are too few to hold out a "
                          "tenth for evaluation; add shards, or *test* shards",
                          path, (long long)state->n_rows);
    return VP_OK;
}

/* The size of a block depends only on the shards: it determines the order of
 * samples, which must be the same in every run. */
static enum vp_status make_blocks(struct hdf5_state *state, int64_t block_rows,
                                  struct vp_err *err)
{
    int64_t row = state->seq + 2 * state->n_pred + 1; /* int32 numbers */
    int64_t widest = state->seq > state->n_pred ? state->seq : state->n_pred;
    int64_t n_blocks;
    int32_t *at;

    if (block_rows == 0)
        block_rows = BLOCK_BYTES / (4 * row) / 10 * 10;
    if (block_rows == 0)
        block_rows = 10;
    if (block_rows > state->n_rows)
        block_rows = (state->n_rows + 9) / 10 * 10;
    n_blocks = (state->n_rows - 1) / block_rows + 1;
    state->block_rows = block_rows;
    state->n_held = n_blocks < N_HELD ? (int)n_blocks : N_HELD;
    state->memory = calloc((size_t)(state->n_held * block_rows),
                           (size_t)row * sizeof(*state->memory));
    state->raw = calloc((size_t)block_rows,
                        (size_t)widest * sizeof(*state->raw));
    if (!state->memory || !state->raw)
        return fail_memory(state->shards.shard[0].path, err);
    at = state->memory;
    for (int i = 0; i < state->n_held; i++) {
        struct block *block = &state->held[i];

        block->number = -1;
        block->words = at;
        block->positions = block->words + block_rows * state->seq;
        block->labels = block->positions + block_rows * state->n_pred;
        block->n_labels = block->labels + block_rows * state->n_pred;
        at = block->n_labels + block_rows;
    }
    return VP_OK;
}

static void hdf5_close(struct vp_source *source)
{
    struct hdf5_state *state = source->state;

    vp_shards_release(&state->shards);
    free(state->memory);
    free(state->raw);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

static enum vp_status open_state(struct hdf5_state *state,
                                 const struct vp_data_config *config,
                                 const struct vp_hdf5_options *options,
                                 struct vp_err *err)
{
    state->vocab = config->vocab ? config->vocab : MAX_VOCAB;
    if (options->image)
        VP_TRY(vp_shards_from_image(options->image, options->n_image,
                                    &state->shards, err));
    else
        VP_TRY(
            vp_shards_find(config->path, config->split, &state->shards, err));
    VP_TRY(check_shards(state, err));
    VP_TRY(check_config(state, config, err));
    return make_blocks(state, options->block, err);
}

/* Checks that need no file. */
static enum vp_status check_use(const struct vp_data_config *config,
                                const struct vp_hdf5_options *options,
                                struct vp_err *err)
{
    const char *path = config->path ? config->path : "image";

    if (!config->path && !options->image)
        return vp_err_set(err, VP_ERR_INVALID,
                          "no shards are given; set data_dir to their folder, "
                          "or synthetic_data to true");
    if (config->task != VP_DATA_MASKED_LM)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: HDF5 shards hold samples of masked LM; set "
                          "model_type to bert, or data_dir to text",
                          path);
    if (config->vocab < 0 || config->vocab > MAX_VOCAB)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: vocab is %lld; set it between 1 and %d", path,
                          (long long)config->vocab, MAX_VOCAB);
    return VP_OK;
}

static void note_skipped(const struct vp_data_config *config,
                         const struct vp_shards *shards,
                         struct vp_source *source)
{
    struct vp_skipped skipped;
    char kinds[256];

    if (!config->path || !vp_shards_skipped(config->path, &skipped))
        return;
    vp_skipped_print(&skipped, kinds, sizeof(kinds));
    vp_source_notice(source,
                     "%.400s: %d HDF5 shard%s taken; not taken: %s; only "
                     "*training* and *test* shards (.hdf5, .h5) are read",
                     config->path, shards->n, shards->n == 1 ? "" : "s", kinds);
}

enum vp_status vp_hdf5_open(const struct vp_data_config *config,
                            const struct vp_hdf5_options *options,
                            struct vp_source *source, struct vp_err *err)
{
    struct hdf5_state *state;
    enum vp_status st;

    VP_TRY(check_use(config, options, err));
    state = calloc(1, sizeof(*state));
    if (!state)
        return fail_memory("HDF5 shards", err);
    pthread_mutex_init(&state->lock, NULL);
    source->state = state;
    st = open_state(state, config, options, err);
    if (st != VP_OK) {
        hdf5_close(source);
        return st;
    }
    source->n_samples = state->n_rows;
    source->vocab = state->vocab;
    source->block = state->block_rows;
    source->n_survey = N_SURVEY * state->block_rows;
    source->is_split = state->shards.is_split;
    snprintf(source->what, sizeof(source->what),
             "HDF5: %d shard%s, %lld samples of %lld tokens", state->shards.n,
             state->shards.n == 1 ? "" : "s", (long long)state->n_rows,
             (long long)state->seq);
    note_skipped(config, &state->shards, source);
    return VP_OK;
}

static enum vp_status hdf5_open(const struct vp_data_config *config,
                                const struct vp_data_window *window,
                                struct vp_source *source, struct vp_err *err)
{
    (void)window; /* samples are stored, not cut */
    return vp_hdf5_open(config, &(struct vp_hdf5_options){ 0 }, source, err);
}

const struct vp_source_ops vp_source_hdf5 = {
    .name = "HDF5 shards",
    .open = hdf5_open,
    .close = hdf5_close,
    .masked = hdf5_masked,
    .ahead = hdf5_ahead,
};
