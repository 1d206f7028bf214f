/* Sorts pairs by length, cuts them into batches and makes their sampler. */
#include "data/by_length.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096 };

/* A pair that fits a bucket. */
struct pair {
    int64_t sample;
    int32_t n_src, n_tgt;
};

struct maker {
    struct vp_data *data;
    struct vp_sample_group *groups;
    struct pair *pairs, *other; /* [n]; `other` is scratch space for sorting */
    int64_t n;
    struct vp_sample_batch *batches; /* [n_batches], capacity n */
    int64_t n_batches;
};

/* ---- Lengths ------------------------------------------------------------ */

/* Reads the lengths of `n` samples from `first` on and adds the pairs that
 * belong to the split and fit a bucket. *k: next sample of the split. */
static enum vp_status add_chunk(struct maker *m, int64_t first, int64_t n,
                                int64_t *k, struct vp_err *err)
{
    const struct vp_data *data = m->data;
    int64_t n_split = vp_data_count(data, data->config.split);
    int64_t n_src[CHUNK], n_tgt[CHUNK];

    VP_TRY(
        data->source.ops->lengths(&data->source, first, n, n_src, n_tgt, err));
    for (; *k < n_split; (*k)++) {
        int64_t sample = vp_data_number(data, data->config.split, *k);
        int64_t i = sample - first;

        if (i >= n)
            break;
        if (vp_pair_bucket(&data->config, n_src[i], n_tgt[i]) >= 0)
            m->pairs[m->n++] = (struct pair){ sample, (int32_t)n_src[i],
                                              (int32_t)n_tgt[i] };
    }
    return VP_OK;
}

static enum vp_status read_lengths(struct maker *m, struct vp_err *err)
{
    int64_t n = m->data->source.n_samples, k = 0;

    for (int64_t i = 0; i < n; i += CHUNK)
        VP_TRY(add_chunk(m, i, n - i < CHUNK ? n - i : CHUNK, &k, err));
    return VP_OK;
}

/* ---- Order -------------------------------------------------------------- */

static void swap_lists(struct maker *m)
{
    struct pair *pairs = m->pairs;

    m->pairs = m->other;
    m->other = pairs;
}

static void shuffle(struct maker *m)
{
    for (int64_t i = 0; i < m->n; i++)
        m->other[i] = m->pairs[vp_permute(m->data->config.seed, 0,
                                          (uint64_t)m->n, (uint64_t)i)];
    swap_lists(m);
}

/* Stable counting sort. `count` has n_lengths + 2 elements. */
static void sort_by(struct maker *m, bool by_source, int64_t *count,
                    int64_t n_lengths)
{
    memset(count, 0, (size_t)(n_lengths + 1) * sizeof(*count));
    for (int64_t i = 0; i < m->n; i++)
        count[(by_source ? m->pairs[i].n_src : m->pairs[i].n_tgt) + 1]++;
    for (int64_t i = 0; i < n_lengths; i++)
        count[i + 1] += count[i];
    for (int64_t i = 0; i < m->n; i++) {
        const struct pair *pair = &m->pairs[i];

        m->other[count[by_source ? pair->n_src : pair->n_tgt]++] = *pair;
    }
    swap_lists(m);
}

static enum vp_status sort_pairs(struct maker *m)
{
    const struct vp_data_config *config = &m->data->config;
    const struct vp_dims *last = &config->dims[config->n_dims - 1];
    int64_t n_lengths = last->seq > last->tgt_seq ? last->seq : last->tgt_seq;
    int64_t *count = malloc((size_t)(n_lengths + 2) * sizeof(*count));

    if (!count)
        return VP_ERR_NOMEM;
    shuffle(m);
    sort_by(m, false, count, n_lengths);
    sort_by(m, true, count, n_lengths);
    free(count);
    return VP_OK;
}

/* ---- Batches ------------------------------------------------------------ */

/* Returns the bucket that holds all pairs from `begin` to end - 1. */
static int bucket_of(const struct maker *m, int64_t begin, int64_t end)
{
    int64_t n_src = 0, n_tgt = 0;

    for (int64_t i = begin; i < end; i++) {
        n_src = m->pairs[i].n_src > n_src ? m->pairs[i].n_src : n_src;
        n_tgt = m->pairs[i].n_tgt > n_tgt ? m->pairs[i].n_tgt : n_tgt;
    }
    return vp_pair_bucket(&m->data->config, n_src, n_tgt);
}

/* Makes a batch of pairs `begin` to end - 1, its rows sorted by descending
 * source length; pairs of equal length keep their order. */
static void add_batch(struct maker *m, int64_t begin, int64_t end)
{
    int64_t *members = m->data->members + begin;
    int bucket = bucket_of(m, begin, end);

    m->batches[m->n_batches++] = (struct vp_sample_batch){ bucket, begin,
                                                           end - begin };
    m->groups[bucket].n_samples += end - begin;
    while (end > begin) {
        int64_t first = end - 1;

        while (first > begin &&
               m->pairs[first - 1].n_src == m->pairs[end - 1].n_src)
            first--;
        for (int64_t i = first; i < end; i++)
            *members++ = m->pairs[i].sample;
        end = first;
    }
}

static void cut_batches(struct maker *m)
{
    const struct vp_data_config *config = &m->data->config;
    int64_t multiple = config->batch_multiple > 0 ? config->batch_multiple
                                                  : VP_BY_LENGTH_MULTIPLE;
    int64_t begin = 0, end;
    int bucket = 0; /* bucket for pairs begin to i - 1 */

    for (int64_t i = 0; i < m->n; i++) {
        int own = bucket_of(m, i, i + 1);

        while (i > begin &&
               i - begin >= config->dims[own > bucket ? own : bucket].batch) {
            int64_t rest = (i - begin) % multiple, whole = i - begin - rest;

            end = begin + (whole > rest ? whole : rest);
            add_batch(m, begin, end);
            begin = end;
            bucket = begin < i ? bucket_of(m, begin, i) : 0;
        }
        bucket = own > bucket ? own : bucket;
    }
    if (begin < m->n)
        add_batch(m, begin, m->n);
}

static enum vp_status make_batches(struct maker *m, struct vp_err *err)
{
    struct vp_data *data = m->data;
    const struct vp_data_config *config = &data->config;

    VP_TRY(read_lengths(m, err));
    if (m->n == 0)
        return VP_OK;
    if (sort_pairs(m) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "data: out of memory");
    cut_batches(m);
    if (vp_sampler_create_batches(config->seed, m->groups, config->n_dims,
                                  m->batches, m->n_batches,
                                  &data->sampler) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "data: out of memory");
    return VP_OK;
}

enum vp_status vp_by_length_plan(struct vp_data *data,
                                 struct vp_sample_group *groups,
                                 struct vp_err *err)
{
    size_t n = (size_t)vp_data_count(data, data->config.split);
    struct maker m = { .data = data, .groups = groups };
    enum vp_status st;

    /* Required by cut_batches(): the longer of two buckets holds the pairs of
     * both. */
    for (int b = 1; b < data->config.n_dims; b++)
        VP_BUG_ON(data->config.dims[b].tgt_seq <
                  data->config.dims[b - 1].tgt_seq);
    m.pairs = calloc(n, sizeof(*m.pairs));
    m.other = calloc(n, sizeof(*m.other));
    m.batches = calloc(n, sizeof(*m.batches));
    data->members = calloc(n, sizeof(*data->members));
    if (m.pairs && m.other && m.batches && data->members)
        st = make_batches(&m, err);
    else
        st = vp_err_set(err, VP_ERR_NOMEM, "data: no memory for %zu pairs", n);
    free(m.pairs);
    free(m.other);
    free(m.batches);
    return st;
}
