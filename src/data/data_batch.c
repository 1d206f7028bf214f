/* The training tasks (masked LM, causal LM, translation pairs): how each turns
 * samples into the arrays of a batch. */
#include "data/data.h"

#include "base/rng.h"
#include "data/internal.h"

#include <stdlib.h>
#include <string.h>

#define ROLE(name) (1u << VP_ROLE_##name)

/* Number of special ids in a sequence: [CLS] A [SEP] B [SEP]. */
enum { MASKED_EXTRA = 3 };

/* Returns scratch memory for one window: vp_batch_create() allocates
 * window.length elements more for the tokens than a batch has. */
static int32_t *spare(const struct vp_data *data, const struct vp_batch *batch)
{
    return batch->array[VP_ROLE_TOKENS] + data->capacity[VP_ROLE_TOKENS];
}

/* ---- Masked language model ---------------------------------------------- */

static enum vp_status masked_check(const struct vp_data_config *config,
                                   struct vp_err *err)
{
    const struct vp_dims *dims = config->dims;

    if (!(config->mask_prob > 0.0f && config->mask_prob <= 1.0f))
        return vp_err_set(err, VP_ERR_INVALID,
                          "masked LM: mask_prob is %g; set a fraction above 0, "
                          "such as 0.15",
                          (double)config->mask_prob);
    if (dims[0].seq <= MASKED_EXTRA)
        return vp_err_refuse(err, "seq_length",
                             "masked LM: seq_length is %lld, but %d positions "
                             "are special; set it to %d or more",
                             (long long)dims[0].seq, MASKED_EXTRA,
                             MASKED_EXTRA + 1);
    for (int b = 0; b < config->n_dims; b++) {
        if (dims[b].batch != dims[0].batch || dims[b].seq != dims[0].seq ||
            (b > 0 && dims[b].n_labels < dims[b - 1].n_labels))
            return vp_err_set(err, VP_ERR_INVALID,
                              "masked LM: buckets may differ in n_labels only, "
                              "ascending; bucket %d does not",
                              b);
        if (dims[b].n_labels < dims[b].batch ||
            dims[b].n_labels > dims[b].batch * dims[b].seq)
            return vp_err_set(err, VP_ERR_INVALID,
                              "masked LM: %lld label rows for %lld sequences "
                              "of %lld; set max_pred between 1 and seq_length",
                              (long long)dims[b].n_labels,
                              (long long)dims[b].batch, (long long)dims[b].seq);
    }
    return VP_OK;
}

static struct vp_data_window masked_window(const struct vp_data_config *config)
{
    int64_t n = config->dims[0].seq - MASKED_EXTRA;

    return (struct vp_data_window){ n, n };
}

/* Returns the number of scored tokens per sequence. It is the same for all, so
 * that sequences have equal weight, and limited by the largest bucket. */
static int64_t masked_per_sequence(const struct vp_data_config *config)
{
    const struct vp_dims *last = &config->dims[config->n_dims - 1];
    int64_t n = last->seq - MASKED_EXTRA;
    int64_t want = (int64_t)((double)config->mask_prob * (double)n + 0.5);
    int64_t cap = last->n_labels / last->batch;

    want = want < cap ? want : cap;
    want = want < n ? want : n;
    return want > 1 ? want : 1;
}

static int masked_bucket(const struct vp_data_config *config, int64_t n_labels)
{
    int b = 0;

    while (config->dims[b].n_labels < n_labels)
        b++;
    return b;
}

/* Writes [CLS] A [SEP] B [SEP]; A and B are the two halves of the window `ids`.
 * tokens, types, mask: [seq] */
static void put_segments(const int32_t *ids, int64_t n, int32_t *tokens,
                         int32_t *types, int32_t *mask)
{
    int64_t half = (n + 1) / 2;

    tokens[0] = VP_TOKEN_CLS;
    memcpy(tokens + 1, ids, (size_t)half * sizeof(*ids));
    tokens[1 + half] = VP_TOKEN_SEP;
    memcpy(tokens + 2 + half, ids + half, (size_t)(n - half) * sizeof(*ids));
    tokens[2 + n] = VP_TOKEN_SEP;
    for (int64_t t = 0; t < n + MASKED_EXTRA; t++) {
        types[t] = t >= 2 + half;
        mask[t] = 1;
    }
}

/* Returns the input id for a scored token: [MASK] in 80 % of cases, a random
 * word in 10 %, `id` itself in 10 %. */
static int32_t mask_token(int32_t id, int64_t vocab, struct vp_rng4 r)
{
    uint32_t tenth = vp_rng_below(r.v[1], 10);
    uint32_t n_words = (uint32_t)(vocab - VP_TOKEN_FIRST);

    if (tenth < 8)
        return VP_TOKEN_MASK;
    if (tenth == 8)
        return VP_TOKEN_FIRST + (int32_t)vp_rng_below(r.v[2], n_words);
    return id;
}

/* Returns the random key for the mask of a row. Training uses the running count
 * of samples, so that every epoch masks different tokens. Evaluation uses the
 * number of the sample, so that its mask does not depend on the evaluation or
 * on the batch size. */
static uint64_t mask_key(const struct vp_data *data,
                         const struct vp_data_slot *slot, int64_t row)
{
    if (data->config.split == VP_DATA_EVAL)
        return (uint64_t)vp_data_sample(data, slot, row);
    return slot->first_sample + (uint64_t)row;
}

/* Chooses exactly k of the n text positions of a sequence, ascending, each
 * subset equally likely (selection sampling, Knuth vol. 2, algorithm S). */
static void mask_row(const struct vp_data *data, uint64_t key,
                     int64_t first_row, int64_t n, int64_t k, int32_t *tokens,
                     int32_t *rows_out, int32_t *labels_out)
{
    int64_t half = (n + 1) / 2, n_chosen = 0;

    for (int64_t t = 0; n_chosen < k; t++) {
        int64_t p = t < half ? t + 1 : t + 2;
        struct vp_rng4 r = vp_rng(data->config.seed, VP_RNG_MASKING, 0,
                                  (uint32_t)p, 0, key);

        if (vp_rng_below(r.v[0], (uint32_t)(n - t)) >= (uint32_t)(k - n_chosen))
            continue;
        rows_out[n_chosen] = (int32_t)(first_row + p);
        labels_out[n_chosen] = tokens[p];
        tokens[p] = mask_token(tokens[p], data->source.vocab, r);
        n_chosen++;
    }
}

/* Fills a batch from a source that stores or makes masked samples. The number
 * of labels differs between sequences. */
static enum vp_status masked_copy(const struct vp_data *data,
                                  const struct vp_data_slot *slot,
                                  struct vp_batch *batch, struct vp_err *err)
{
    int64_t seq = data->config.dims[0].seq, n_labels = 0;

    batch->n_tokens = 0;
    for (int64_t i = 0; i < slot->count; i++) {
        struct vp_masked row = {
            .key = mask_key(data, slot, i),
            .tokens = batch->array[VP_ROLE_TOKENS] + i * seq,
            .types = batch->array[VP_ROLE_TYPES] + i * seq,
            .mask = batch->array[VP_ROLE_MASK] + i * seq,
            .positions = batch->array[VP_ROLE_LABEL_ROWS] + n_labels,
            .labels = batch->array[VP_ROLE_LABELS] + n_labels,
        };

        VP_TRY(data->source.ops->masked(
            &data->source, vp_data_sample(data, slot, i), &row, err));
        for (int64_t k = 0; k < row.n_labels; k++)
            row.positions[k] += (int32_t)(i * seq);
        n_labels += row.n_labels;
        batch->n_tokens += row.n_tokens;
    }
    batch->bucket = masked_bucket(&data->config, n_labels);
    return VP_OK;
}

static enum vp_status masked_fill(const struct vp_data *data,
                                  const struct vp_data_slot *slot,
                                  struct vp_batch *batch, struct vp_err *err)
{
    int64_t seq = data->config.dims[0].seq;
    int64_t n = seq - MASKED_EXTRA;
    int64_t k = masked_per_sequence(&data->config);
    int32_t *ids = spare(data, batch);

    if (data->source.ops->masked)
        return masked_copy(data, slot, batch, err);
    batch->bucket = masked_bucket(&data->config, slot->count * k);
    batch->n_tokens = slot->count * seq;
    for (int64_t i = 0; i < slot->count; i++) {
        int32_t *tokens = batch->array[VP_ROLE_TOKENS] + i * seq;

        VP_TRY(data->source.ops->window(
            &data->source, vp_data_sample(data, slot, i), ids, err));
        put_segments(ids, n, tokens, batch->array[VP_ROLE_TYPES] + i * seq,
                     batch->array[VP_ROLE_MASK] + i * seq);
        mask_row(data, mask_key(data, slot, i), i * seq, n, k, tokens,
                 batch->array[VP_ROLE_LABEL_ROWS] + i * k,
                 batch->array[VP_ROLE_LABELS] + i * k);
    }
    return VP_OK;
}

/* Counts all tokens of a window, because each position is equally likely to be
 * scored; of a masked sample only its labels. */
static enum vp_status masked_count(const struct vp_data *data, int64_t i,
                                   int32_t *scratch, int64_t *freq,
                                   struct vp_err *err)
{
    struct vp_masked row = { .key = (uint64_t)i,
                             .labels = scratch,
                             .tokens = scratch + data->config.dims[0].seq };
    int64_t n = data->window.length;

    if (data->source.ops->masked) {
        VP_TRY(data->source.ops->masked(&data->source, i, &row, err));
        n = row.n_labels;
    } else {
        VP_TRY(data->source.ops->window(&data->source, i, scratch, err));
    }
    for (int64_t t = 0; t < n; t++)
        freq[scratch[t]]++;
    return VP_OK;
}

/* ---- Causal language model ---------------------------------------------- */

static enum vp_status causal_check(const struct vp_data_config *config,
                                   struct vp_err *err)
{
    if (config->n_dims != 1)
        return vp_err_set(err, VP_ERR_INVALID,
                          "causal LM: %d buckets are given, but all windows "
                          "have one length; give 1",
                          config->n_dims);
    return VP_OK;
}

/* Adjacent windows share one token: the last label of a window is the first
 * token of the next. */
static struct vp_data_window causal_window(const struct vp_data_config *config)
{
    return (struct vp_data_window){ config->dims[0].seq + 1,
                                    config->dims[0].seq };
}

/* Fills a batch from a source whose samples are sequences with one label, at
 * their last token. */
static enum vp_status causal_copy(const struct vp_data *data,
                                  const struct vp_data_slot *slot,
                                  struct vp_batch *batch, struct vp_err *err)
{
    int64_t seq = data->config.dims[0].seq, n;
    int32_t *ids = spare(data, batch);

    batch->n_tokens = 0;
    for (int64_t i = 0; i < slot->count; i++) {
        int32_t *mask = batch->array[VP_ROLE_MASK] + i * seq;

        VP_TRY(data->source.ops->sequence(
            &data->source, vp_data_sample(data, slot, i), ids, &n, err));
        memcpy(batch->array[VP_ROLE_TOKENS] + i * seq, ids,
               (size_t)(n - 1) * sizeof(*ids));
        batch->array[VP_ROLE_LABELS][i * seq + n - 2] = ids[n - 1];
        for (int64_t t = 0; t < n - 1; t++)
            mask[t] = 1;
        batch->n_tokens += n - 1;
    }
    return VP_OK;
}

static enum vp_status causal_fill(const struct vp_data *data,
                                  const struct vp_data_slot *slot,
                                  struct vp_batch *batch, struct vp_err *err)
{
    int64_t seq = data->config.dims[0].seq;
    size_t row_bytes = (size_t)seq * sizeof(int32_t);
    int32_t *ids = spare(data, batch);

    batch->bucket = 0;
    if (data->source.ops->sequence)
        return causal_copy(data, slot, batch, err);
    batch->n_tokens = slot->count * seq;
    for (int64_t i = 0; i < slot->count; i++) {
        VP_TRY(data->source.ops->window(
            &data->source, vp_data_sample(data, slot, i), ids, err));
        memcpy(batch->array[VP_ROLE_TOKENS] + i * seq, ids, row_bytes);
        memcpy(batch->array[VP_ROLE_LABELS] + i * seq, ids + 1, row_bytes);
    }
    for (int64_t row = 0; row < slot->count * seq; row++)
        batch->array[VP_ROLE_MASK][row] = 1;
    return VP_OK;
}

static enum vp_status causal_count(const struct vp_data *data, int64_t i,
                                   int32_t *scratch, int64_t *freq,
                                   struct vp_err *err)
{
    int64_t n;

    if (data->source.ops->sequence) {
        VP_TRY(data->source.ops->sequence(&data->source, i, scratch, &n, err));
        freq[scratch[n - 1]]++;
        return VP_OK;
    }
    VP_TRY(data->source.ops->window(&data->source, i, scratch, err));
    for (int64_t t = 1; t < data->window.length; t++)
        freq[scratch[t]]++;
    return VP_OK;
}

/* ---- Translation pairs -------------------------------------------------- */

static enum vp_status pairs_check(const struct vp_data_config *config,
                                  struct vp_err *err)
{
    const struct vp_dims *dims = config->dims;

    for (int b = 0; b < config->n_dims; b++) {
        if (dims[b].tgt_seq < 1)
            return vp_err_set(err, VP_ERR_INVALID,
                              "pairs: bucket %d has no target positions; give "
                              "tgt_seq 1 or more",
                              b);
        if (b > 0 && dims[b].seq < dims[b - 1].seq)
            return vp_err_set(err, VP_ERR_INVALID,
                              "pairs: bucket %d is shorter than bucket %d; "
                              "give the shortest first",
                              b, b - 1);
    }
    return VP_OK;
}

static struct vp_data_window pairs_window(const struct vp_data_config *config)
{
    (void)config;
    return (struct vp_data_window){ 0, 0 };
}

int vp_pair_bucket(const struct vp_data_config *config, int64_t n_src,
                   int64_t n_tgt)
{
    for (int b = 0; b < config->n_dims; b++) {
        /* + 1: [SEP] ends both sides. */
        if (n_src + 1 <= config->dims[b].seq &&
            n_tgt + 1 <= config->dims[b].tgt_seq)
            return b;
    }
    return -1;
}

/* Moves the `n` ids at the start of a row to its end. */
static void pad_left(const struct vp_data *data, int64_t seq, int64_t n,
                     int32_t *tokens)
{
    memmove(tokens + seq - n, tokens, (size_t)n * sizeof(*tokens));
    for (int64_t t = 0; t < seq - n; t++)
        tokens[t] = data->source.pad;
}

/* source: ids [SEP]; decoder input: [CLS] ids; labels: ids [SEP] */
static enum vp_status put_pair(const struct vp_data *data, int64_t sample,
                               const struct vp_dims *dims, int64_t row,
                               struct vp_batch *batch, struct vp_err *err)
{
    int32_t *tokens = batch->array[VP_ROLE_TOKENS] + row * dims->seq;
    int32_t *mask = batch->array[VP_ROLE_MASK] + row * dims->seq;
    int32_t *input = batch->array[VP_ROLE_TARGET_TOKENS] + row * dims->tgt_seq;
    int32_t *labels = batch->array[VP_ROLE_LABELS] + row * dims->tgt_seq;
    int64_t n_src = dims->seq - 1, n_tgt = dims->tgt_seq - 1, first;

    VP_TRY(data->source.ops->pair(&data->source, sample, tokens, &n_src, labels,
                                  &n_tgt, err));
    tokens[n_src++] = data->source.end;
    first = data->source.left_pad ? dims->seq - n_src : 0;
    if (first > 0)
        pad_left(data, dims->seq, n_src, tokens);
    for (int64_t t = first; t < first + n_src; t++)
        mask[t] = 1;
    input[0] = data->source.begin;
    memcpy(input + 1, labels, (size_t)n_tgt * sizeof(*labels));
    labels[n_tgt++] = data->source.end;
    batch->n_tokens += n_src + n_tgt;
    return VP_OK;
}

static enum vp_status pairs_fill(const struct vp_data *data,
                                 const struct vp_data_slot *slot,
                                 struct vp_batch *batch, struct vp_err *err)
{
    batch->bucket = vp_sampler_group(data->sampler, slot->group)->bucket;
    batch->n_tokens = 0;
    for (int64_t i = 0; i < slot->count; i++)
        VP_TRY(put_pair(data, vp_data_sample(data, slot, i),
                        &data->config.dims[batch->bucket], i, batch, err));
    return VP_OK;
}

static enum vp_status pairs_count(const struct vp_data *data, int64_t i,
                                  int32_t *scratch, int64_t *freq,
                                  struct vp_err *err)
{
    int32_t *tgt = scratch + data->source.max_pair;
    int64_t n_src = data->source.max_pair, n_tgt = n_src;

    VP_TRY(data->source.ops->pair(&data->source, i, scratch, &n_src, tgt,
                                  &n_tgt, err));
    if (vp_pair_bucket(&data->config, n_src, n_tgt) < 0)
        return VP_OK;
    for (int64_t t = 0; t < n_tgt; t++)
        freq[tgt[t]]++;
    freq[data->source.end]++;
    return VP_OK;
}

/* ---- The table, and batches --------------------------------------------- */

const struct vp_task_ops vp_tasks[VP_DATA_PAIRS + 1] = {
    [VP_DATA_MASKED_LM] = {
        .name = "masked LM",
        .roles = ROLE(TOKENS) | ROLE(TYPES) | ROLE(MASK) | ROLE(LABEL_ROWS) |
                 ROLE(LABELS),
        .check = masked_check,
        .window = masked_window,
        .fill = masked_fill,
        .count = masked_count,
    },
    [VP_DATA_CAUSAL_LM] = {
        .name = "causal LM",
        .roles = ROLE(TOKENS) | ROLE(MASK) | ROLE(LABELS),
        .check = causal_check,
        .window = causal_window,
        .fill = causal_fill,
        .count = causal_count,
    },
    [VP_DATA_PAIRS] = {
        .name = "pairs",
        .roles = ROLE(TOKENS) | ROLE(MASK) | ROLE(LABELS) |
                 ROLE(TARGET_TOKENS),
        .check = pairs_check,
        .window = pairs_window,
        .fill = pairs_fill,
        .count = pairs_count,
    },
};

enum vp_status vp_batch_create(const struct vp_data *data,
                               struct vp_batch **out)
{
    struct vp_batch *batch = calloc(1, sizeof(*batch));

    if (!batch)
        return VP_ERR_NOMEM;
    for (int role = 0; role < VP_ROLE_COUNT; role++) {
        int64_t n = data->capacity[role];

        if (n == 0)
            continue;
        if (role == VP_ROLE_TOKENS)
            n += data->window.length; /* see spare() */
        batch->array[role] = calloc((size_t)n, sizeof(int32_t));
        if (!batch->array[role]) {
            vp_batch_free(batch);
            return VP_ERR_NOMEM;
        }
    }
    *out = batch;
    return VP_OK;
}

void vp_batch_free(struct vp_batch *batch)
{
    if (!batch)
        return;
    for (int role = 0; role < VP_ROLE_COUNT; role++)
        free(batch->array[role]);
    free(batch);
}
