/* Opens a data set (source, task, sampler), counts its labels and fills
 * batches. */
#include "data/data.h"
#include "base/memory.h"
#include "data/by_length.h"
#include "data/data_detect.h"
#include "data/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct vp_source_ops *const sources[] = {
    [VP_DATA_TEXT] = &vp_source_text,
    [VP_DATA_SYNTHETIC] = &vp_source_language,
    [VP_DATA_HDF5] = &vp_source_hdf5,
    [VP_DATA_TOKENS] = &vp_source_tokens,
    [VP_DATA_FAIRSEQ] = &vp_source_fairseq,
    [VP_DATA_CHID] = &vp_source_chid,
    [VP_DATA_PARALLEL] = &vp_source_parallel,
    [VP_DATA_PACKED] = &vp_source_packed,
};

/* ---- Opening ------------------------------------------------------------ */

static bool fits_int32(int64_t a, int64_t b)
{
    int64_t n;

    return vp_mul_i64(a, b, &n) && n <= INT32_MAX;
}

/* Checks of the buckets that are the same for all tasks. */
static enum vp_status check_dims(const struct vp_data_config *config,
                                 struct vp_err *err)
{
    bool has_rows = config->task == VP_DATA_MASKED_LM;
    bool has_target = config->task == VP_DATA_PAIRS;

    if (config->n_dims < 1 || config->n_dims > VP_DATA_MAX_DIMS)
        return vp_err_set(err, VP_ERR_INVALID,
                          "data: %d batch shapes are given; give 1 to %d",
                          config->n_dims, VP_DATA_MAX_DIMS);
    for (int b = 0; b < config->n_dims; b++) {
        const struct vp_dims *dims = &config->dims[b];

        if (dims->batch < 1 || dims->seq < 1)
            return vp_err_set(err, VP_ERR_INVALID,
                              "data: bucket %d is %lld x %lld; set batch_size "
                              "and seq_length to 1 or more",
                              b, (long long)dims->batch, (long long)dims->seq);
        if (!fits_int32(dims->batch, dims->seq) ||
            !fits_int32(dims->batch, dims->tgt_seq))
            return vp_err_set(err, VP_ERR_INVALID,
                              "data: bucket %d has over 2^31 rows; lower "
                              "batch_size or seq_length",
                              b);
        if (has_rows != (dims->n_labels > 0) ||
            has_target != (dims->tgt_seq > 0))
            return vp_err_set(err, VP_ERR_INVALID,
                              "data: bucket %d has tgt_seq %lld and n_labels "
                              "%lld, which do not fit %s; set %s",
                              b, (long long)dims->tgt_seq,
                              (long long)dims->n_labels,
                              vp_tasks[config->task].name,
                              has_rows     ? "max_pred (n_labels) above 0"
                              : has_target ? "tgt_seq alone"
                                           : "both to 0");
    }
    return VP_OK;
}

static void set_room(struct vp_data *data)
{
    for (int role = 0; role < VP_ROLE_COUNT; role++) {
        for (int b = 0; b < data->config.n_dims; b++) {
            int64_t n = vp_dims_role(&data->config.dims[b], role);

            if ((data->task->roles >> role & 1) && n > data->capacity[role])
                data->capacity[role] = n;
        }
    }
}

static enum vp_status fail_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM, "data: out of memory");
}

int64_t vp_data_count(const struct vp_data *data, enum vp_data_split split)
{
    int64_t n = data->source.n_samples;

    return data->source.is_split ? n : vp_split_count(split, n);
}

int64_t vp_data_number(const struct vp_data *data, enum vp_data_split split,
                       int64_t k)
{
    return data->source.is_split ? k : vp_split_sample(split, k);
}

/* Sorts the samples of the split by bucket with a stable counting sort.
 * `bucket` and `scratch` are temporary. */
static enum vp_status sort_pairs(struct vp_data *data,
                                 struct vp_sample_group *groups, int *bucket,
                                 int32_t *scratch, struct vp_err *err)
{
    const struct vp_source *source = &data->source;
    int64_t n = vp_data_count(data, data->config.split);
    int64_t n_src, n_tgt, first = 0;

    for (int64_t k = 0; k < n; k++) {
        int64_t i = vp_data_number(data, data->config.split, k);

        n_src = n_tgt = source->max_pair;
        VP_TRY(source->ops->pair(source, i, scratch, &n_src,
                                 scratch + source->max_pair, &n_tgt, err));
        bucket[k] = vp_pair_bucket(&data->config, n_src, n_tgt);
        if (bucket[k] >= 0)
            groups[bucket[k]].n_samples++;
    }
    for (int b = 0; b < data->config.n_dims; b++) {
        data->group_first[b] = first;
        first += groups[b].n_samples;
        groups[b].n_samples = 0;
    }
    for (int64_t k = 0; k < n; k++) {
        int b = bucket[k];

        if (b >= 0)
            data->members[data->group_first[b] + groups[b].n_samples++] =
                vp_data_number(data, data->config.split, k);
    }
    return VP_OK;
}

static enum vp_status group_pairs(struct vp_data *data,
                                  struct vp_sample_group *groups,
                                  int32_t *scratch, struct vp_err *err)
{
    int64_t n = vp_data_count(data, data->config.split);
    int *bucket = calloc((size_t)n, sizeof(*bucket));
    enum vp_status st;

    data->members = calloc((size_t)n, sizeof(*data->members));
    if (bucket && data->members)
        st = sort_pairs(data, groups, bucket, scratch, err);
    else
        st = fail_memory(err);
    free(bucket);
    return st;
}

/* A run of the sampler is the part of a source's block that belongs to the
 * split: all of it, nine tenths or one tenth. */
static enum vp_status create_plan(struct vp_data *data,
                                  const struct vp_sample_group *groups,
                                  int n_groups)
{
    const struct vp_source *source = &data->source;
    int64_t run = source->block;

    if (run == 0)
        return vp_sampler_create(data->config.seed, groups, n_groups,
                                 &data->sampler);
    if (!source->is_split)
        run = vp_split_count(data->config.split, run);
    return vp_sampler_create_runs(data->config.seed, groups, run,
                                  &data->sampler);
}

static enum vp_status make_plan(struct vp_data *data, int32_t *scratch,
                                struct vp_err *err)
{
    const struct vp_data_config *config = &data->config;
    const struct vp_dims *last = &config->dims[config->n_dims - 1];
    int64_t n = vp_data_count(data, config->split);
    struct vp_sample_group groups[VP_DATA_MAX_DIMS];
    bool is_pairs = data->window.length == 0;
    int64_t n_fit = 0;

    for (int b = 0; b < config->n_dims; b++)
        groups[b] = (struct vp_sample_group){ b, 0, config->dims[b].batch };
    if (data->source.by_length)
        VP_TRY(vp_by_length_plan(data, groups, err));
    else if (is_pairs)
        VP_TRY(group_pairs(data, groups, scratch, err));
    else
        groups[0].n_samples = n;
    for (int b = 0; b < config->n_dims; b++)
        n_fit += groups[b].n_samples;
    if (n_fit == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: none of %lld pairs fits %lld source and %lld "
                          "target positions; raise seq_length",
                          data->source.what, (long long)n, (long long)last->seq,
                          (long long)last->tgt_seq);
    if (!data->sampler &&
        create_plan(data, groups, is_pairs ? config->n_dims : 1) != VP_OK)
        return fail_memory(err);
    snprintf(data->what, sizeof(data->what), "%s", data->source.what);
    if (n_fit < n)
        snprintf(data->what, sizeof(data->what),
                 "%s, %lld of %lld pairs left out as too long",
                 data->source.what, (long long)(n - n_fit), (long long)n);
    return VP_OK;
}

/* Returns the sum of -f log f with f = freq[id] / n, in nats: the loss per
 * label of a predictor that outputs the frequencies f. No context-free
 * predictor has a smaller loss. */
static double entropy(const int64_t *freq, int64_t vocab)
{
    double n = 0.0, sum = 0.0;

    for (int64_t id = 0; id < vocab; id++) {
        n += (double)freq[id];
        if (freq[id] > 0)
            sum += (double)freq[id] * log((double)freq[id]);
    }
    return n > 0.0 ? log(n) - sum / n : 0.0;
}

static enum vp_status count_labels(struct vp_data *data, int32_t *scratch,
                                   struct vp_err *err)
{
    int64_t n = vp_data_count(data, VP_DATA_TRAIN);
    int64_t n_survey = data->source.n_survey;
    int64_t *freq = calloc((size_t)data->source.vocab, sizeof(*freq));
    enum vp_status st = VP_OK;

    if (!freq)
        return fail_memory(err);
    if (n_survey > 0 && n_survey < n)
        n = n_survey;
    for (int64_t k = 0; st == VP_OK && k < n; k++)
        st = data->task->count(data, vp_data_number(data, VP_DATA_TRAIN, k),
                               scratch, freq, err);
    if (st == VP_OK)
        data->info.unigram_loss = entropy(freq, data->source.vocab);
    free(freq);
    return st;
}

/* Reads samples to make the sampler and to count labels; fills data->info. */
static enum vp_status survey(struct vp_data *data, struct vp_err *err)
{
    int64_t longest = data->config.dims[data->config.n_dims - 1].seq;
    int32_t *scratch;
    enum vp_status st;

    if (longest < data->window.length)
        longest = data->window.length;
    if (longest < data->source.max_pair)
        longest = data->source.max_pair;
    scratch = calloc((size_t)longest, 2 * sizeof(*scratch));
    if (!scratch)
        return fail_memory(err);
    st = make_plan(data, scratch, err);
    if (st == VP_OK)
        st = count_labels(data, scratch, err);
    free(scratch);
    if (st != VP_OK)
        return st;
    data->info.n_samples = vp_sampler_samples(data->sampler);
    data->info.n_batches = vp_sampler_batches(data->sampler);
    if (data->config.max_batches > 0 &&
        data->config.max_batches < data->info.n_batches)
        data->info.n_batches = data->config.max_batches;
    data->info.vocab = data->source.vocab;
    data->info.what = data->what;
    return VP_OK;
}

static enum vp_status open_parts(struct vp_data *data,
                                 const struct vp_source_ops *ops,
                                 struct vp_err *err)
{
    const struct vp_data_config *config = &data->config;
    struct vp_source source = { .ops = ops,
                                .pad = VP_TOKEN_PAD,
                                .begin = VP_TOKEN_CLS,
                                .end = VP_TOKEN_SEP };

    data->window = data->task->window(config);
    if (data->window.length == 0 && !ops->pair)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: no translation pairs in %s; choose another "
                          "model_type or other data",
                          config->path ? config->path : "data", ops->name);
    VP_TRY(ops->open(config, &data->window, &source, err));
    source.is_split |= config->whole;
    data->source = source;
    if (vp_data_count(data, config->split) == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: %lld samples are too few to hold out a tenth "
                          "for evaluation; add text or lower seq_length",
                          source.what, (long long)source.n_samples);
    return survey(data, err);
}

static enum vp_status check(const struct vp_data_config *config,
                            struct vp_err *err)
{
    VP_BUG_ON((size_t)config->task >= VP_COUNT_OF(vp_tasks));
    VP_TRY(check_dims(config, err));
    return vp_tasks[config->task].check(config, err);
}

/* Allocates data without a source. Returns NULL if out of memory. */
static struct vp_data *create(const struct vp_data_config *config)
{
    struct vp_data *data = calloc(1, sizeof(*data));

    if (!data)
        return NULL;
    data->config = *config;
    data->task = &vp_tasks[config->task];
    set_room(data);
    return data;
}

enum vp_status vp_data_stand_in(const struct vp_data_config *config,
                                const struct vp_data_info *info,
                                struct vp_data **out, struct vp_err *err)
{
    struct vp_data *data;

    VP_TRY(check(config, err));
    data = create(config);
    if (!data)
        return fail_memory(err);
    data->info = *info;
    snprintf(data->what, sizeof(data->what), "%s", info->what);
    data->info.what = data->what;
    *out = data;
    return VP_OK;
}

enum vp_status vp_data_open_source(const struct vp_data_config *config,
                                   const struct vp_source_ops *ops,
                                   struct vp_data **out, struct vp_err *err)
{
    struct vp_data *data;
    enum vp_status st;

    VP_TRY(check(config, err));
    data = create(config);
    if (!data)
        return fail_memory(err);
    st = open_parts(data, ops, err);
    if (st != VP_OK) {
        vp_data_close(data);
        return st;
    }
    *out = data;
    return VP_OK;
}

enum vp_status vp_data_open(const struct vp_data_config *config,
                            struct vp_data **out, struct vp_err *err)
{
    struct vp_data_config found = *config;

    if (config->source == VP_DATA_FILES)
        VP_TRY(vp_data_detect(config, &found, err));
    VP_BUG_ON((size_t)found.source >= VP_COUNT_OF(sources));
    return vp_data_open_source(&found, sources[found.source], out, err);
}

void vp_data_close(struct vp_data *data)
{
    if (!data)
        return;
    if (data->source.ops)
        data->source.ops->close(&data->source);
    vp_sampler_free(data->sampler);
    free(data->members);
    free(data);
}

const struct vp_data_info *vp_data_info(const struct vp_data *data)
{
    return &data->info;
}

int vp_data_choices(const struct vp_data *data, const int32_t **ids_out)
{
    *ids_out = data->source.choices;
    return data->source.n_choices;
}

const char *vp_data_notice(const struct vp_data *data, int i)
{
    return i < data->source.n_notices ? data->source.notice[i] : NULL;
}

/* ---- Filling ------------------------------------------------------------ */

int64_t vp_data_sample(const struct vp_data *data,
                       const struct vp_data_slot *slot, int64_t row)
{
    int64_t k = vp_sampler_sample(data->sampler, slot, row);

    if (data->members)
        return data->members[data->group_first[slot->group] + k];
    return vp_data_number(data, data->config.split, k);
}

/* Fills all arrays with padding, so that tasks write rows of samples only. */
static void clear(const struct vp_data *data, struct vp_batch *batch)
{
    for (int role = 0; role < VP_ROLE_COUNT; role++) {
        bool is_label = role == VP_ROLE_LABELS || role == VP_ROLE_LABEL_ROWS;
        bool is_id = role == VP_ROLE_TOKENS || role == VP_ROLE_TARGET_TOKENS;
        int32_t value = is_label ? -1 : is_id ? data->source.pad : 0;

        for (int64_t i = 0; i < data->capacity[role]; i++)
            batch->array[role][i] = value;
    }
}

static void read_ahead(const struct vp_data *data,
                       const struct vp_data_slot *slot)
{
    int64_t k = vp_sampler_ahead(data->sampler, slot);

    if (k >= 0)
        data->source.ops->ahead(&data->source,
                                vp_data_number(data, data->config.split, k));
}

/* Finds batch `m`. With max_batches an epoch of the run is shorter than one of
 * the sampler. */
static struct vp_data_slot slot_of(const struct vp_data *data, uint64_t m)
{
    uint64_t n = (uint64_t)data->info.n_batches;
    uint64_t whole = (uint64_t)vp_sampler_batches(data->sampler);
    struct vp_data_slot slot;

    vp_sampler_slot(data->sampler, m / n * whole + m % n, &slot);
    return slot;
}

enum vp_status vp_data_answers(const struct vp_data *data, uint64_t m,
                               int32_t *choices_out, struct vp_err *err)
{
    struct vp_data_slot slot = slot_of(data, m);

    VP_BUG_ON(!data->source.ops->answer);
    for (int64_t i = 0; i < data->config.dims[0].batch; i++) {
        choices_out[i] = -1;
        if (i < slot.count)
            VP_TRY(data->source.ops->answer(&data->source,
                                            vp_data_sample(data, &slot, i),
                                            &choices_out[i], err));
    }
    return VP_OK;
}

enum vp_status vp_data_fill(const struct vp_data *data, uint64_t m,
                            struct vp_batch *batch, struct vp_err *err)
{
    struct vp_data_slot slot;
    enum vp_status st;

    clear(data, batch);
    if (data->maker.fill)
        return vp_data_make(data, m, batch, err);
    slot = slot_of(data, m);
    batch->first_sample = slot.first_sample;
    batch->n_samples = slot.count;
    st = data->task->fill(data, &slot, batch, err);
    if (st != VP_OK)
        vp_err_prefix(err, "batch %llu", (unsigned long long)m);
    else if (data->source.ops->ahead)
        read_ahead(data, &slot);
    return st;
}
