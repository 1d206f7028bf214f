/* BERT's HDF5 shards: every number against what tests/golden/make_hdf5.py
 * wrote, orders, resuming, faults of files, of memory and of libhdf5. */
#include "data/hdf5.h"
#include "data/internal.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fuzz/shard_input.h"
#include "lib/datalib.h"
#include "lib/golden.h"

#define GOLDEN VP_SOURCE_DIR "/tests/golden/hdf5/"

/* libhdf5 opens files slowly under sanitizers: there a fifth will do. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRIDE = 5 };
#else
enum { STRIDE = 1 };
#endif

enum { VOCAB = 200, MAX_ROWS = 400, N_MUTANTS = 8400 };

/* ---- Wrapped at link time: allocations and reads ------------------------ */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_H5Dread(int64_t set, int64_t type, int64_t memory, int64_t file,
                   int64_t plist, void *out);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_H5Dread(int64_t set, int64_t type, int64_t memory, int64_t file,
                   int64_t plist, void *out);

static atomic_int n_allocations, n_reads;
static int failing_allocation, failing_read; /* the n-th; 0: none */

static bool is_next(atomic_int *n, int failing)
{
    return atomic_fetch_add(n, 1) + 1 == failing;
}

void *__wrap_malloc(size_t n)
{
    return is_next(&n_allocations, failing_allocation) ? NULL
                                                       : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_next(&n_allocations, failing_allocation) ? NULL
                                                       : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return is_next(&n_allocations, failing_allocation) ? NULL
                                                       : __real_realloc(p, n);
}

int __wrap_H5Dread(int64_t set, int64_t type, int64_t memory, int64_t file,
                   int64_t plist, void *out)
{
    if (is_next(&n_reads, failing_read))
        return -1;
    return __real_H5Dread(set, type, memory, file, plist, out);
}

/* ---- Shards and what is in them ----------------------------------------- */

struct gold {
    struct golden *file;
    int64_t n_rows, seq;
    const int32_t *ids, *mask, *types, *labels; /* [n_rows, seq] */
};

static struct gold open_gold(const char *name)
{
    struct gold gold;
    char path[512];

    snprintf(path, sizeof(path), GOLDEN "%s", name);
    gold.file = golden_open(path);
    gold.ids = golden_i32(gold.file, "input_ids", &gold.n_rows, &gold.seq);
    gold.mask = golden_i32(gold.file, "input_mask", NULL, NULL);
    gold.types = golden_i32(gold.file, "segment_ids", NULL, NULL);
    gold.labels = golden_i32(gold.file, "labels", NULL, NULL);
    assert_true(gold.n_rows <= MAX_ROWS);
    return gold;
}

/* How to open shards; what is 0 is as usual. */
struct setup {
    const char *path;
    int64_t batch, seq, max_pred, block;
    enum vp_data_split split;
    uint64_t seed;
    const void *image;
    size_t n_image;
    int64_t vocab;
    bool one_bucket;
};

static struct vp_hdf5_options options;

static enum vp_status open_with_options(const struct vp_data_config *config,
                                        const struct vp_data_window *window,
                                        struct vp_source *source,
                                        struct vp_err *err)
{
    (void)window;
    return vp_hdf5_open(config, &options, source, err);
}

/* An open data set and the dims it borrows. */
struct shards {
    struct vp_dims dims[2];
    struct vp_data_config config;
    struct vp_data *data;
    struct vp_batch *batch;
};

static enum vp_status try_open(const struct setup *setup, struct shards *shards,
                               struct vp_err *err)
{
    int64_t batch = setup->batch ? setup->batch : 4;
    int64_t seq = setup->seq ? setup->seq : 16;
    static struct vp_source_ops ops;
    enum vp_status st;

    *shards = (struct shards){
        .dims = { { batch, seq, 0,
                    batch * (setup->max_pred ? setup->max_pred : 3) },
                  { batch, seq, 0, batch * seq } },
        .config = { .source = VP_DATA_HDF5,
                    .task = VP_DATA_MASKED_LM,
                    .split = setup->split,
                    .path = setup->path,
                    .vocab = setup->vocab ? setup->vocab : VOCAB,
                    .seed = setup->seed,
                    .mask_prob = 0.15f,
                    .n_dims = setup->one_bucket ? 1 : 2 },
    };
    shards->config.dims = shards->dims;
    ops = vp_source_hdf5;
    ops.open = open_with_options;
    options = (struct vp_hdf5_options){ setup->block, setup->image,
                                        setup->n_image };
    st = vp_data_open_source(&shards->config, &ops, &shards->data, err);
    if (st == VP_OK)
        st = vp_batch_create(shards->data, &shards->batch);
    return st;
}

static void close_shards(struct shards *shards)
{
    vp_batch_free(shards->batch);
    vp_data_close(shards->data);
}

static void open_shards(const struct setup *setup, struct shards *shards)
{
    struct vp_err err = { .text = "" };

    if (try_open(setup, shards, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* Row i of a batch: its labels as a vector with -1 elsewhere. */
static void spread_labels(const struct shards *shards, int64_t i, int32_t *out)
{
    const struct vp_batch *batch = shards->batch;
    const struct vp_dims *dims = &shards->dims[batch->bucket];

    for (int64_t t = 0; t < dims->seq; t++)
        out[t] = -1;
    for (int64_t k = 0; k < dims->n_labels; k++) {
        int32_t row = batch->array[VP_ROLE_LABEL_ROWS][k];
        int32_t label = batch->array[VP_ROLE_LABELS][k];

        assert_int_equal(row < 0, label < 0);
        if (row < 0 || row / dims->seq != i)
            continue;
        assert_int_equal(out[row % dims->seq], -1);
        out[row % dims->seq] = label;
    }
}

/* A padded row of the batch is a row of the shards. */
static bool same_row(const int32_t *got, const int32_t *want, int64_t n_got,
                     int64_t n_want, int32_t padding)
{
    for (int64_t t = n_want; t < n_got; t++) {
        if (got[t] != padding)
            return false;
    }
    return memcmp(got, want, (size_t)n_want * sizeof(*got)) == 0;
}

/* The row of the shards that stands in row i of the batch. */
static int64_t find_row(const struct shards *shards, const struct gold *gold,
                        int64_t i)
{
    const struct vp_batch *batch = shards->batch;
    int64_t seq = shards->dims[0].seq, found = -1;
    int32_t labels[64];

    spread_labels(shards, i, labels);
    for (int64_t r = 0; r < gold->n_rows; r++) {
        int64_t at = r * gold->seq;

        if (same_row(batch->array[VP_ROLE_TOKENS] + i * seq, gold->ids + at,
                     seq, gold->seq, 0) &&
            same_row(batch->array[VP_ROLE_TYPES] + i * seq, gold->types + at,
                     seq, gold->seq, 0) &&
            same_row(batch->array[VP_ROLE_MASK] + i * seq, gold->mask + at, seq,
                     gold->seq, 0) &&
            same_row(labels, gold->labels + at, seq, gold->seq, -1)) {
            assert_int_equal(found, -1);
            found = r;
        }
    }
    if (found < 0)
        fail_msg("row %d of the batch is in no shard", (int)i);
    return found;
}

static void check_counts(const struct shards *shards, const struct gold *gold,
                         const int64_t *rows)
{
    const struct vp_batch *batch = shards->batch;
    int64_t n_tokens = 0, n_labels = 0;

    for (int64_t i = 0; i < batch->n_samples; i++) {
        for (int64_t t = 0; t < gold->seq; t++) {
            n_tokens += gold->mask[rows[i] * gold->seq + t];
            n_labels += gold->labels[rows[i] * gold->seq + t] >= 0;
        }
    }
    assert_int_equal(batch->n_tokens, n_tokens);
    assert_int_equal(batch->bucket, n_labels > shards->dims[0].n_labels);
    /* Unused places follow the used ones; whole sequences may be padding. */
    for (int64_t k = 0; k < shards->dims[batch->bucket].n_labels; k++)
        assert_int_equal(batch->array[VP_ROLE_LABELS][k] >= 0, k < n_labels);
    for (int64_t t = batch->n_samples * shards->dims[0].seq;
         t < shards->dims[0].batch * shards->dims[0].seq; t++)
        assert_int_equal(batch->array[VP_ROLE_MASK][t], 0);
}

/* All of an epoch; rows of the shards in their order. Returns how many. */
static int64_t read_epoch(struct shards *shards, const struct gold *gold,
                          uint64_t epoch, int64_t *order)
{
    uint64_t n_batches = (uint64_t)vp_data_info(shards->data)->n_batches;
    uint64_t n_samples = (uint64_t)vp_data_info(shards->data)->n_samples;
    int64_t n = 0;

    for (uint64_t m = 0; m < n_batches; m++) {
        fill(shards->data, epoch * n_batches + m, shards->batch);
        assert_int_equal(shards->batch->first_sample,
                         epoch * n_samples + (uint64_t)n);
        for (int64_t i = 0; i < shards->batch->n_samples; i++)
            order[n + i] = find_row(shards, gold, i);
        check_counts(shards, gold, order + n);
        n += shards->batch->n_samples;
    }
    assert_int_equal(n, n_samples);
    return n;
}

/* ---- Contents ----------------------------------------------------------- */

static const struct {
    const char *folder, *gold;
    enum vp_data_split split;
    int tenth; /* rows with i % 10 == 9: 0 left out, 1 alone, 2 like others */
} sets[] = {
    { GOLDEN "nvidia", "nvidia", VP_DATA_TRAIN, 2 },
    { GOLDEN "nvidia", "nvidia_test", VP_DATA_EVAL, 2 },
    { GOLDEN "plain", "plain", VP_DATA_TRAIN, 0 },
    { GOLDEN "plain", "plain", VP_DATA_EVAL, 1 },
    { GOLDEN "mixed", "mixed", VP_DATA_TRAIN, 0 },
    { GOLDEN "mixed", "mixed", VP_DATA_EVAL, 1 },
    { GOLDEN "deep", "deep", VP_DATA_TRAIN, 0 },
};

static void check_set(const struct setup *setup, const struct gold *gold,
                      int tenth)
{
    struct shards shards;
    int64_t order[2][MAX_ROWS], n = 0;
    int n_same = 0;

    open_shards(setup, &shards);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        int seen[MAX_ROWS] = { 0 };

        n = read_epoch(&shards, gold, epoch, order[epoch]);
        for (int64_t i = 0; i < n; i++)
            seen[order[epoch][i]]++;
        for (int64_t r = 0; r < gold->n_rows; r++)
            assert_int_equal(seen[r],
                             tenth == 2 || (r % 10 == 9) == (tenth == 1));
    }
    for (int64_t i = 0; i < n; i++)
        n_same += order[0][i] == order[1][i];
    assert_true(n < 40 || n_same < n / 4); /* another order */
    close_shards(&shards);
}

static void batches_show_the_shards(void **state)
{
    static const int64_t batches[] = { 1, 3, 7, 16, 50, 300 };
    static const int64_t blocks[] = { 0, 10, 20, 50 };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(sets); k++) {
        struct gold gold = open_gold(sets[k].gold);

        for (size_t b = 0; b < VP_COUNT_OF(batches); b++) {
            for (size_t c = 0; c < VP_COUNT_OF(blocks); c++) {
                struct setup setup = { .path = sets[k].folder,
                                       .split = sets[k].split,
                                       .batch = batches[b],
                                       .block = blocks[c],
                                       .seq = 16 + (int64_t)(b % 2) * 5,
                                       .max_pred = 1 + (int64_t)(b % 3),
                                       .seed = b };

                check_set(&setup, &gold, sets[k].tenth);
            }
        }
        golden_close(gold.file);
    }
}

/* Blocks without a size given hold everything here. */
static void large_blocks_are_bounded(void **state)
{
    struct setup setup = { .path = GOLDEN "deep" };
    struct shards shards;
    struct gold gold = open_gold("deep");
    int64_t order[MAX_ROWS];

    (void)state;
    open_shards(&setup, &shards);
    assert_int_equal(shards.data->source.block, 270);
    atomic_store(&n_reads, 0);
    read_epoch(&shards, &gold, 0, order);
    assert_int_equal(n_reads, 0); /* the survey has read it */
    assert_string_equal(vp_data_info(shards.data)->what,
                        "HDF5: 1 shard, 270 samples of 8 tokens");
    close_shards(&shards);
    golden_close(gold.file);
}

/* What a context-free predictor loses, counted here; with few blocks to look
 * at, of the first rows only. */
static void unigram_loss_is_that_of_the_labels(void **state)
{
    struct gold gold = open_gold("plain");

    (void)state;
    for (int64_t block = 0; block <= 10; block += 10) {
        struct setup setup = { .path = GOLDEN "plain", .block = block };
        int64_t n_rows = block ? 44
                               : gold.n_rows; /* 40 that are not held out */
        double count[VOCAB] = { 0 };
        struct shards shards;

        for (int64_t i = 0; i < n_rows * gold.seq; i++) {
            if (i / gold.seq % 10 != 9 && gold.labels[i] >= 0)
                count[gold.labels[i]]++;
        }
        open_shards(&setup, &shards);
        assert_true(fabs(entropy_of(count, VOCAB) -
                         vp_data_info(shards.data)->unigram_loss) < 1e-12);
        assert_int_equal(vp_data_info(shards.data)->vocab, VOCAB);
        close_shards(&shards);
    }
    golden_close(gold.file);
}

/* ---- Order -------------------------------------------------------------- */

/* Runs of 9, 4 at a time: 103 rows of which 93 train. */
static void order_is_stable(void **state)
{
    static const int64_t want[] = { 57, 62, 80, 55, 53, 87, 91, 93 };
    struct setup setup = { .path = GOLDEN "plain", .block = 10, .seed = 1 };
    struct gold gold = open_gold("plain");
    struct shards shards;
    int64_t first[MAX_ROWS], order[MAX_ROWS];
    int n_other = 0;

    (void)state;
    open_shards(&setup, &shards);
    read_epoch(&shards, &gold, 0, first);
    assert_memory_equal(first, want, sizeof(want));
    close_shards(&shards);
    /* The order knows neither batch sizes nor what was read before. */
    for (setup.batch = 1; setup.batch < 120; setup.batch += 17) {
        open_shards(&setup, &shards);
        read_epoch(&shards, &gold, 1, order);
        read_epoch(&shards, &gold, 0, order);
        assert_memory_equal(order, first, 93 * sizeof(*order));
        close_shards(&shards);
    }
    setup.seed = 2;
    open_shards(&setup, &shards);
    read_epoch(&shards, &gold, 0, order);
    for (int i = 0; i < 93; i++)
        n_other += order[i] != first[i];
    assert_true(n_other > 70);
    close_shards(&shards);
    golden_close(gold.file);
}

/* Every sample once, only those of a set's runs in a set, all sets shuffled. */
static void check_runs(int64_t n, int64_t run, int64_t batch)
{
    struct vp_sample_group group = { 0, n, batch };
    int64_t set = VP_SAMPLER_MIX * run, n_runs = (n + run - 1) / run;
    struct vp_sampler *sampler = NULL;

    assert_int_equal(vp_sampler_create_runs(7, &group, run, &sampler), VP_OK);
    for (uint64_t m = 0; m < 3 * (uint64_t)vp_sampler_batches(sampler); m++) {
        static int seen[128], set_of_run[128];
        struct vp_data_slot slot;

        vp_sampler_slot(sampler, m, &slot);
        if (m % (uint64_t)vp_sampler_batches(sampler) == 0) {
            memset(seen, 0, sizeof(seen));
            memset(set_of_run, -1, sizeof(set_of_run));
            assert_int_equal(slot.first, 0);
        }
        for (int64_t row = 0; row < slot.count; row++) {
            int64_t i = vp_sampler_sample(sampler, &slot, row);
            int s = (int)((slot.first + row) / set);

            assert_in_range(i, 0, n - 1);
            assert_int_equal(seen[i]++, 0);
            if (set_of_run[i / run] < 0)
                set_of_run[i / run] = s;
            assert_int_equal(set_of_run[i / run], s);
        }
        if (slot.first + slot.count == n && n % run > 0)
            assert_int_equal(set_of_run[n_runs - 1], (n_runs - 1) / 4);
    }
    vp_sampler_free(sampler);
}

static void runs_take_every_sample_once(void **state)
{
    static const int64_t runs[] = { 1, 2, 3, 9, 10, 64, 1000 };

    (void)state;
    for (int64_t n = 1; n < 128; n += n < 20 ? 1 : 9) {
        for (size_t r = 0; r < VP_COUNT_OF(runs); r++) {
            for (int64_t batch = 1; batch < 40; batch = batch * 2 + 1)
                check_runs(n, runs[r], batch);
        }
    }
}

/* Within a set all its runs are mixed, and each set is shuffled anew. */
static void runs_are_mixed(void **state)
{
    struct vp_sample_group group = { 0, 8000, 10 };
    struct vp_sampler *sampler = NULL;
    int64_t places[4000];
    int n_follow = 0, n_as_before = 0, n_steps[4] = { 0 }, n_first[8] = { 0 };

    (void)state;
    assert_int_equal(vp_sampler_create_runs(7, &group, 1000, &sampler), VP_OK);
    for (int64_t p = 0; p < 8000; p++) {
        struct vp_data_slot slot;
        int64_t i, first;

        vp_sampler_slot(sampler, (uint64_t)p / 10, &slot);
        i = vp_sampler_sample(sampler, &slot, p % 10);
        first = vp_sampler_sample(sampler, &slot, 0);
        n_follow += i == first + p % 10;
        n_steps[p % 4] += i / 1000 == first / 1000;
        if (p < 4000)
            places[p] = i % 1000;
        else
            n_as_before += places[p - 4000] == i % 1000;
    }
    /* By chance: 800 begin a batch, of the others 1 in 4 shares its run. */
    assert_in_range(n_follow, 800, 830);
    assert_in_range(n_as_before, 0, 20);
    for (int k = 0; k < 4; k++)
        assert_in_range(n_steps[k], 450, 1150);
    /* Any run may come first, in each epoch another. */
    for (uint64_t epoch = 0; epoch < 200; epoch++) {
        struct vp_data_slot slot;

        vp_sampler_slot(sampler, 800 * epoch, &slot);
        n_first[vp_sampler_sample(sampler, &slot, 0) / 1000]++;
    }
    for (int k = 0; k < 8; k++)
        assert_in_range(n_first[k], 10, 45);
    vp_sampler_free(sampler);
}

/* Each run is announced once it is due, in the set before the one that needs
 * it; nothing is announced in the first eighth of a set. 8 sets of 80, then 30
 * samples in which not all is due. */
static void runs_are_announced(void **state)
{
    struct vp_sample_group group = { 0, 8 * 80 + 30, 5 };
    struct vp_sampler *sampler = NULL;
    bool is_known[34] = { false }, is_used[34], is_due[34] = { false };

    (void)state;
    assert_int_equal(vp_sampler_create_runs(3, &group, 20, &sampler), VP_OK);
    for (uint64_t m = 0; m < 5 * (uint64_t)vp_sampler_batches(sampler); m++) {
        struct vp_data_slot slot;
        int64_t ahead;

        vp_sampler_slot(sampler, m, &slot);
        if (slot.first % 80 == 0) {
            memcpy(is_known, is_due, sizeof(is_known));
            memset(is_due, 0, sizeof(is_due));
            memset(is_used, 0, sizeof(is_used));
        }
        for (int64_t row = 0; row < slot.count; row++)
            is_used[vp_sampler_sample(sampler, &slot, row) / 20] = true;
        ahead = vp_sampler_ahead(sampler, &slot);
        if (slot.first % 80 < 10 ||
            (slot.first >= 560 + 50 && slot.first < 640))
            assert_int_equal(ahead, -1);
        else
            assert_true(ahead >= 0 && ahead % 20 == 0);
        if (ahead >= 0)
            is_due[ahead / 20] = true;
        if (slot.first % 80 != 75 || slot.epoch == 0)
            continue;
        /* Before the first set of an epoch there were 30 samples only. */
        for (int r = 0, n_known = 0; r < 34; r++) {
            n_known += is_known[r];
            assert_true(!is_known[r] || is_used[r]);
            if (r == 33)
                assert_int_equal(n_known, slot.first == 75 ? 1 : 4);
        }
    }
    vp_sampler_free(sampler);
}

/* ---- Resuming, reading ahead, threads ----------------------------------- */

/* A copy of a batch to compare with. */
static struct vp_batch *take_batch(const struct shards *shards, uint64_t m)
{
    struct vp_batch *batch = make_batch(shards->data);

    fill(shards->data, m, batch);
    return batch;
}

/* All batches of an epoch. */
static struct vp_batch **take_epoch(const struct shards *shards)
{
    int64_t n = vp_data_info(shards->data)->n_batches;
    struct vp_batch **batches = calloc((size_t)n, sizeof(struct vp_batch *));

    assert_non_null(batches);
    for (int64_t m = 0; m < n; m++)
        batches[m] = take_batch(shards, (uint64_t)m);
    return batches;
}

static void free_epoch(const struct shards *shards, struct vp_batch **batches)
{
    for (int64_t m = 0; m < vp_data_info(shards->data)->n_batches; m++)
        vp_batch_free(batches[m]);
    free(batches);
}

static void every_sample_can_be_resumed(void **state)
{
    struct setup setup = { .path = GOLDEN "mixed", .batch = 1, .block = 10 };
    struct shards whole, part;
    uint64_t n;

    (void)state;
    open_shards(&setup, &whole);
    n = 2 * (uint64_t)vp_data_info(whole.data)->n_batches + 3;
    for (uint64_t m = 0; m < n; m++) {
        fill(whole.data, m, whole.batch);
        open_shards(&setup, &part);
        fill(part.data, m, part.batch);
        assert_same_batch(&whole.config, whole.batch, part.batch);
        close_shards(&part);
    }
    close_shards(&whole);
}

static void prefetching_changes_nothing(void **state)
{
    static const int depths[] = { 0, 1, 4 };
    struct setup setup = { .path = GOLDEN "plain", .batch = 6, .block = 10 };
    struct shards shards;

    (void)state;
    open_shards(&setup, &shards);
    for (size_t k = 0; k < VP_COUNT_OF(depths); k++) {
        const struct vp_batch_order order = { 3, 2, 1, 1 };
        struct vp_prefetch *prefetch = NULL;
        const struct vp_batch *got = NULL;
        struct vp_err err = { .text = "" };

        assert_int_equal(
            vp_prefetch_create(shards.data, &order, depths[k], &prefetch),
            VP_OK);
        for (uint64_t i = 0; i < 40; i++) {
            assert_int_equal(vp_prefetch_next(prefetch, 10000, &got, &err),
                             VP_OK);
            fill(shards.data, 3 + 2 * i, shards.batch);
            assert_same_batch(&shards.config, got, shards.batch);
        }
        vp_prefetch_free(prefetch);
    }
    close_shards(&shards);
}

enum { N_THREADS = 4, N_THREAD_BATCHES = 48 };

struct reader {
    const struct shards *shards;
    struct vp_batch *const *want;
    struct vp_batch *batch;
    int first;
    bool is_wrong;
};

static void *read_some(void *arg)
{
    struct reader *reader = arg;

    for (int k = 0; k < N_THREAD_BATCHES; k++) {
        int m = (reader->first * 13 + k * (reader->first + 1)) %
                N_THREAD_BATCHES;
        const struct vp_batch *want = reader->want[m];

        if (vp_data_fill(reader->shards->data, (uint64_t)m, reader->batch,
                         NULL) != VP_OK ||
            memcmp(reader->batch->array[VP_ROLE_TOKENS],
                   want->array[VP_ROLE_TOKENS],
                   4 * 16 * sizeof(int32_t)) != 0 ||
            memcmp(reader->batch->array[VP_ROLE_LABELS],
                   want->array[VP_ROLE_LABELS], 4 * sizeof(int32_t)) != 0)
            reader->is_wrong = true;
    }
    return NULL;
}

static void threads_may_fill_at_once(void **state)
{
    struct setup setup = { .path = GOLDEN "plain", .block = 10 };
    struct vp_batch *want[N_THREAD_BATCHES];
    struct reader readers[N_THREADS];
    pthread_t threads[N_THREADS];
    struct shards shards;

    (void)state;
    open_shards(&setup, &shards);
    for (int m = 0; m < N_THREAD_BATCHES; m++)
        want[m] = take_batch(&shards, (uint64_t)m);
    for (int i = 0; i < N_THREADS; i++) {
        readers[i] = (struct reader){ &shards, want, make_batch(shards.data), i,
                                      false };
        assert_int_equal(
            pthread_create(&threads[i], NULL, read_some, &readers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(readers[i].is_wrong);
        vp_batch_free(readers[i].batch);
    }
    for (int m = 0; m < N_THREAD_BATCHES; m++)
        vp_batch_free(want[m]);
    close_shards(&shards);
}

/* Blocks are read once in an epoch, one at a time once the run is going, and
 * nothing is allocated for it. */
static void reading_is_even_and_allocates_nothing(void **state)
{
    struct setup setup = { .path = GOLDEN "deep", .batch = 3, .block = 10 };
    struct shards shards;
    int n_before, n_most = 0;
    uint64_t n;

    (void)state;
    open_shards(&setup, &shards);
    n = (uint64_t)vp_data_info(shards.data)->n_batches;
    fill(shards.data, 0, shards.batch);
    atomic_store(&n_reads, 0);
    atomic_store(&n_allocations, 0);
    for (uint64_t m = 1; m < 3 * n; m++) {
        n_before = n_reads;
        fill(shards.data, m, shards.batch);
        /* The set at the end of an epoch is short: the next is not ready. */
        if (m % n > 12 && n_reads - n_before > n_most)
            n_most = n_reads - n_before;
    }
    assert_int_equal(n_allocations, 0);
    assert_int_equal(n_most, 5); /* data sets of one block */
    /* 27 blocks; the first 4 of the first epoch are in memory. */
    assert_in_range(n_reads, 5 * (3 * 27 - 4), 5 * (3 * 27 + 4));
    close_shards(&shards);
}

/* ---- Which files -------------------------------------------------------- */

static void copy_file(const char *from, const char *to)
{
    int64_t n;
    char *bytes = golden_slurp(from, "", &n);

    write_file(to, bytes, (size_t)n);
    free(bytes);
}

static int64_t count_samples(const struct setup *setup)
{
    struct shards shards;
    int64_t n;

    open_shards(setup, &shards);
    n = vp_data_info(shards.data)->n_samples;
    close_shards(&shards);
    return n;
}

static void names_decide(void **state)
{
    struct setup train = { .path = folder }, eval = train;

    (void)state;
    eval.split = VP_DATA_EVAL;
    copy_file(GOLDEN "plain/x_training_0.h5", "b_training.h5");
    copy_file(GOLDEN "plain/x_training_2.h5", "a_training.hdf5");
    assert_int_equal(count_samples(&train), 102 - 10);
    assert_int_equal(count_samples(&eval), 10);
    /* Not shards: by name, by extension, hidden. */
    copy_file(GOLDEN "plain/x_training_1.h5", "b_train.h5");
    copy_file(GOLDEN "plain/x_training_1.h5", "b_training.h5.bak");
    copy_file(GOLDEN "plain/x_training_1.h5", ".b_training.h5");
    copy_file(GOLDEN "plain/x_training_1.h5", "training");
    write_text("training.txt", "text");
    mkdir(at("training"), 0777);
    assert_int_equal(count_samples(&train), 102 - 10);
    /* "latest" contains "test". */
    copy_file(GOLDEN "plain/x_training_1.h5", "latest_training.h5");
    assert_int_equal(count_samples(&train), 103 - 10);
    copy_file(GOLDEN "plain/x_training_1.h5", "x_test_0.h5");
    assert_int_equal(count_samples(&train), 103);
    assert_int_equal(count_samples(&eval), 1);
    /* One file alone is taken whatever its name. */
    train.path = at("b_training.h5.bak");
    assert_int_equal(count_samples(&train), 1);
    assert_int_equal(symlink(GOLDEN "plain/x_training_0.h5", at("y_test.h5")),
                     0);
    assert_int_equal(count_samples(&eval), 38);
}

/* The order of shards is that of their names. */
static void shards_come_in_order_of_names(void **state)
{
    struct setup setup = { .path = folder };
    struct gold gold = open_gold("plain");
    struct shards shards;
    int32_t ids[16];
    struct vp_masked row = { .tokens = ids };
    struct vp_err err = { .text = "" };

    (void)state;
    copy_file(GOLDEN "plain/x_training_2.h5", "x_training_10.h5");
    copy_file(GOLDEN "plain/x_training_0.h5", "x_training_9.h5");
    copy_file(GOLDEN "plain/x_training_1.h5", "X_training_99.h5");
    open_shards(&setup, &shards);
    for (int64_t i = 0; i < gold.n_rows; i++) {
        int64_t r = i < 1 ? 37 : i < 66 ? i - 1 + 38 : i - 66;

        assert_int_equal(
            vp_source_hdf5.masked(&shards.data->source, i, &row, &err), VP_OK);
        assert_memory_equal(ids, gold.ids + 16 * r, sizeof(ids));
    }
    close_shards(&shards);
    golden_close(gold.file);
}

static const char *what_is_at(const char *path)
{
    static char what[256];
    static const struct vp_dims dims = { 2, 16, 0, 32 };
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_MASKED_LM,
                                     .path = path,
                                     .mask_prob = 0.15f,
                                     .dims = &dims,
                                     .n_dims = 1 };
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };

    if (vp_data_open(&config, &data, &err) != VP_OK)
        snprintf(what, sizeof(what), "%.250s", err.text);
    else
        snprintf(what, sizeof(what), "%s", vp_data_info(data)->what);
    vp_data_close(data);
    return what;
}

static void content_decides_what_is_read(void **state)
{
    unsigned char *noise = write_noise("a.txt", 3000);

    (void)state;
    free(noise);
    assert_string_equal(what_is_at(folder), "text: 1 file, 3 kB");
    copy_file(GOLDEN "plain/x_training_0.h5", "x.h5");
    assert_string_equal(what_is_at(folder), "text: 1 file, 3 kB");
    assert_string_equal(what_is_at(at("x.h5")),
                        "HDF5: 1 shard, 37 samples of 16 tokens");
    copy_file(GOLDEN "plain/x_training_0.h5", "x_training.h5");
    assert_string_equal(what_is_at(folder),
                        "HDF5: 1 shard, 37 samples of 16 tokens");
    assert_string_equal(what_is_at(at("a.txt")), "text: 1 file, 3 kB");
    assert_non_null(strstr(what_is_at(at("none")), "No such file"));
    assert_non_null(strstr(what_is_at(NULL), "no text is given"));
    mkdir(at("bare"), 0777);
    assert_non_null(strstr(what_is_at(at("bare")), "*training*.hdf5"));
}

/* ---- Messages ----------------------------------------------------------- */

#define BAD(name) GOLDEN "bad/" name ".h5"

static const struct {
    struct setup setup;
    const char *cause, *remedy;
} mistakes[] = {
    { { .path = BAD("no_input_ids") },
      "no_input_ids.h5: input_ids: there is no such data set",
      "write it" },
    { { .path = BAD("no_input_mask") }, "input_mask: there is no", "write it" },
    { { .path = BAD("no_input_mask_v110") },
      "input_mask: there is no",
      "write it" },
    { { .path = BAD("no_segment_ids") }, "segment_ids: there is no", "write" },
    { { .path = BAD("no_masked_lm_positions") },
      "masked_lm_positions: there is no",
      "move the file out of data_dir" },
    { { .path = BAD("no_masked_lm_ids") },
      "masked_lm_ids: there is no",
      "write it" },
    { { .path = BAD("future") },
      "input_ids: has a layout of version 5",
      "HDF5 1.10" },
    { { .path = BAD("float_earliest") },
      "segment_ids: must hold integers, but has type class 1",
      "such as i4" },
    { { .path = BAD("float_v110") },
      "segment_ids: must hold integers, but has type class 1",
      "such as i4" },
    { { .path = BAD("compound") },
      "input_ids: must hold integers, but has type class 6",
      "such as i4" },
    { { .path = BAD("flat_earliest") },
      "input_mask: has 1 dimensions instead of 2",
      "one row for each" },
    { { .path = BAD("flat_v110") },
      "input_mask: has 1 dimensions instead of 2",
      "one row for each" },
    { { .path = BAD("deep_earliest") },
      "input_ids: has 3 dimensions instead of 2",
      "one row for each" },
    { { .path = BAD("deep_v110") },
      "input_ids: has 3 dimensions instead of 2",
      "one row for each" },
    { { .path = BAD("rows_earliest") },
      "masked_lm_ids: is 11 x 4, but input_ids is 12 x 16",
      "one row" },
    { { .path = BAD("rows_v110") },
      "masked_lm_ids: is 11 x 4, but input_ids is 12 x 16",
      "one row" },
    { { .path = BAD("columns") },
      "segment_ids: is 12 x 15, but input_ids is 12 x 16",
      "one row" },
    { { .path = BAD("labels") },
      "masked_lm_ids: is 12 x 3, but masked_lm_positions is 12 x 4",
      "row" },
    { { .path = BAD("empty") }, "input_ids: has no rows", "move the file" },
    { { .path = BAD("empty_chunks") }, "has no rows", "move the file" },
    { { .path = BAD("no_labels") },
      "12 rows of 16 tokens with 0 labels are of no use",
      "anew" },
    { { .path = BAD("lzf_earliest") },
      "input_ids: is packed by filter 32000",
      "with gzip" },
    { { .path = BAD("lzf_v110") },
      "input_ids: is packed by filter 32000",
      "with gzip" },
    { { .path = BAD("growing") },
      "input_ids: has gzip chunks longer than its length 12",
      "smaller" },
    { { .path = BAD("virtual") }, "input_ids: is in other files", "into the" },
    { { .path = BAD("external") }, "input_ids: is in other files", "into" },
    { { .path = BAD("soft") },
      "input_ids is there twice or is a link",
      "anew" },
    { { .path = BAD("unfinished") },
      "input_ids: only 3 of 4 chunks are there",
      "anew" },
    { { .path = BAD("long") },
      "input_ids: has sequences of 32 tokens, but seq_length is 16",
      "set seq_length to 32" },
    { { .path = BAD("id_high") },
      "input_ids, row 7: 200 at place 3 is not in 0 to 199",
      "set vocab" },
    { { .path = BAD("id_low") },
      "input_ids, row 0: -1 at place 15 is not in 0 to 199",
      "set vocab" },
    { { .path = BAD("id_huge") },
      "input_ids, row 11: 2147483647 at place 0",
      "set vocab" },
    { { .path = BAD("mask_2") },
      "input_mask, row 4: 2 at place 5 is not in 0 to 1; copy",
      "anew" },
    { { .path = BAD("type_2") },
      "segment_ids, row 5: 2 at place 6 is not in 0 to 1; copy",
      "anew" },
    { { .path = BAD("position_high") },
      "masked_lm_positions, row 2: 16 at place 0 is not in 0 to 15; copy",
      "anew" },
    { { .path = BAD("position_low") },
      "masked_lm_positions, row 2: -3 at place 0 is not in 0 to 15",
      "anew" },
    { { .path = BAD("position_twice") },
      "masked_lm_positions, row 9: 5 at place 2 comes twice",
      "anew" },
    { { .path = BAD("label_high") },
      "masked_lm_ids, row 3: 255 at place 2 is not in 0 to 199",
      "set vocab" },
    { { .path = BAD("label_low") },
      "masked_lm_ids, row 3: -7 at place 2 is not in 0 to 199",
      "set vocab" },
    { { .path = GOLDEN "plain", .vocab = 103 },
      "x_training_0.h5: input_ids, row 0",
      "set vocab" },
    { { .path = GOLDEN "plain", .vocab = 1 << 25 },
      "vocab is 33554432",
      "between 1 and 16777216" },
    { { .path = GOLDEN "plain", .seq = 8 },
      "sequences of 16 tokens, but seq_length is 8",
      "set seq_length to 16" },
    { { .path = GOLDEN "plain", .one_bucket = true },
      "has up to 4 labels a row, but there is room for 3",
      "max_pred to 4" },
    { { .path = GOLDEN "plain/x_training_1.h5", .split = VP_DATA_EVAL },
      "1 rows are too few to hold out a tenth",
      "*test* shards" },
    { { .path = GOLDEN "bad" }, "bad: no shard is here", "*training*.h5" },
    { { .path = GOLDEN "nothing" }, "No such file", "set data_dir" },
    { { .path = NULL }, "no shards are given", "set data_dir" },
    { { .path = GOLDEN "plain.idx" }, "is no HDF5 file", "out of data_dir" },
};

static void mistakes_are_explained(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(mistakes); k++) {
        struct shards shards;
        struct vp_err err = { .text = "" };
        enum vp_status st = try_open(&mistakes[k].setup, &shards, &err);

        if (st != VP_ERR_INVALID || !strstr(err.text, mistakes[k].cause) ||
            !strstr(strstr(err.text, mistakes[k].cause), mistakes[k].remedy) ||
            !strstr(err.text, "; ") || strchr(err.text, '\n'))
            fail_msg("case %d: status %d: %s", (int)k, st, err.text);
        assert_null(shards.data);
        assert_int_equal(try_open(&mistakes[k].setup, &shards, NULL),
                         VP_ERR_INVALID);
    }
}

/* Text beside shards is not read, and that is said. */
static void what_lies_beside_shards_is_said(void **state)
{
    static const struct vp_dims dims = { 2, 16, 0, 32 };
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_MASKED_LM,
                                     .path = folder,
                                     .mask_prob = 0.15f,
                                     .dims = &dims,
                                     .n_dims = 1 };
    struct vp_data *data;

    (void)state;
    copy_file(GOLDEN "plain/x_training_0.h5", "x_training.h5");
    copy_file(GOLDEN "plain/x_training_1.h5", "x_test.h5");
    write_text(".hidden", "");
    data = open_data(&config);
    assert_null(vp_data_notice(data, 0));
    vp_data_close(data);

    copy_file(GOLDEN "plain/x_training_1.h5", "other.h5");
    write_text("a.txt", "text\n");
    write_text("b.txt", "text\n");
    write_text("train.bin", "tokens");
    mkdir(at("more"), 0777);
    data = open_data(&config);
    assert_non_null(vp_data_notice(data, 0));
    assert_non_null(strstr(vp_data_notice(data, 0),
                           ": 1 HDF5 shard taken; not taken: .txt 2, .bin 1, "
                           ".h5 1, folders 1; beside *training*.hdf5 and "
                           "*test*.hdf5 nothing is read"));
    assert_null(vp_data_notice(data, 1));
    vp_data_close(data);
}

/* next_sentence_labels is not used, so nobody needs it. */
static void what_is_not_used_may_be_missing(void **state)
{
    struct setup setup = { .path = BAD("no_next_sentence_labels") };

    (void)state;
    assert_int_equal(count_samples(&setup), 11);
}

static void shards_have_one_length(void **state)
{
    struct setup setup = { .path = folder, .seq = 32 };
    struct shards shards;
    struct vp_err err = { .text = "" };

    (void)state;
    copy_file(GOLDEN "plain/x_training_1.h5", "0_training.h5");
    copy_file(BAD("long"), "1_training.h5");
    assert_int_equal(try_open(&setup, &shards, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "1_training.h5: input_ids: has rows of 32 "
                                     "tokens and 4 labels, but "));
    assert_non_null(strstr(err.text, "0_training.h5 of 16 and 4; keep shards "
                                     "of one length"));
}

static void other_models_need_other_data(void **state)
{
    static const struct vp_dims dims = { 2, 16, 0, 0 };
    static const struct vp_dims pairs = { 2, 16, 16, 0 };
    struct vp_data_config config = { .source = VP_DATA_FILES,
                                     .task = VP_DATA_CAUSAL_LM,
                                     .path = GOLDEN "plain",
                                     .dims = &dims,
                                     .n_dims = 1 };
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_data_open(&config, &data, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "plain: HDF5 shards hold samples of "
                                     "masked LM; set model_type to bert"));
    config.task = VP_DATA_PAIRS;
    config.dims = &pairs;
    assert_int_equal(vp_data_open(&config, &data, &err), VP_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "plain: no translation pairs in HDF5 "
                                     "shards; choose another model_type"));
}

/* ---- Faults ------------------------------------------------------------- */

/* Every batch of an epoch is as it was, or fails with `status` and `text`.
 * Returns how many fail. */
static int count_failures(const struct shards *shards,
                          struct vp_batch *const *want, enum vp_status status,
                          const char *text)
{
    int64_t n = vp_data_info(shards->data)->n_batches;
    int n_failed = 0;

    for (int64_t m = 0; m < n; m++) {
        struct vp_err err = { .text = "" };
        enum vp_status st = vp_data_fill(shards->data, (uint64_t)m,
                                         shards->batch, &err);
        char begin[32];

        if (st == VP_OK) {
            assert_same_batch(&shards->config, shards->batch, want[m]);
            continue;
        }
        snprintf(begin, sizeof(begin), "batch %d: /", (int)m);
        if (st != status || !strstr(err.text, text) ||
            strncmp(err.text, begin, strlen(begin)) != 0 ||
            strchr(err.text, '\n'))
            fail_msg("batch %d: %s", (int)m, err.text);
        n_failed++;
    }
    return n_failed;
}

static void set_time(const char *path, struct timespec time)
{
    struct timespec times[2] = { time, time };

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* A shard that goes away or changes: an error at the batch that needs it, and
 * all is well when it is back. */
static void files_may_change_while_in_use(void **state)
{
    struct setup setup = { .path = folder, .block = 10 };
    struct vp_batch **want;
    struct shards shards;
    struct timespec later;
    struct stat info;

    (void)state;
    copy_file(GOLDEN "plain/x_training_2.h5", "a_training.h5");
    copy_file(GOLDEN "plain/x_training_0.h5", "b_training.h5");
    assert_int_equal(stat(at("b_training.h5"), &info), 0);
    open_shards(&setup, &shards);
    want = take_epoch(&shards);

    assert_int_equal(rename(at("b_training.h5"), at("gone")), 0);
    assert_true(count_failures(&shards, want, VP_ERR_IO,
                               "b_training.h5: cannot be read: No such") > 0);
    copy_file(GOLDEN "plain/x_training_1.h5", "b_training.h5");
    assert_true(count_failures(&shards, want, VP_ERR_IO,
                               "b_training.h5: was changed while in use") > 0);
    /* Another size at the same time, the same size at other times. */
    set_time(at("b_training.h5"), info.st_mtim);
    assert_true(count_failures(&shards, want, VP_ERR_IO, "was changed") > 0);
    copy_file(GOLDEN "plain/x_training_0.h5", "b_training.h5");
    later = info.st_mtim;
    later.tv_sec++;
    set_time(at("b_training.h5"), later);
    assert_true(count_failures(&shards, want, VP_ERR_IO, "was changed") > 0);
    later = info.st_mtim;
    later.tv_nsec = (later.tv_nsec + 1000000) % 1000000000;
    set_time(at("b_training.h5"), later);
    assert_true(count_failures(&shards, want, VP_ERR_IO, "was changed") > 0);
    /* Nothing tells that it is another file, but it is not HDF5. */
    write_file("b_training.h5", "not HDF5", 8);
    assert_int_equal(truncate(at("b_training.h5"), info.st_size), 0);
    set_time(at("b_training.h5"), info.st_mtim);
    assert_true(count_failures(&shards, want, VP_ERR_IO,
                               "b_training.h5: cannot be read (") > 0);

    assert_int_equal(rename(at("gone"), at("b_training.h5")), 0);
    assert_int_equal(count_failures(&shards, want, VP_OK, ""), 0);
    free_epoch(&shards, want);
    close_shards(&shards);
}

/* Rows are checked when they are read: only batches that need them fail. */
static void bad_rows_are_found_in_time(void **state)
{
    struct setup setup = { .path = folder, .block = 10, .vocab = 1000 };
    struct vp_batch **want;
    struct shards shards;
    int64_t n;
    int n_failed;

    (void)state;
    copy_file(GOLDEN "plain/x_training_2.h5", "a_training.h5");
    copy_file(BAD("id_high"), "b_training.h5");
    open_shards(&setup, &shards);
    n = vp_data_info(shards.data)->n_batches;
    want = take_epoch(&shards);
    close_shards(&shards);
    setup.vocab = VOCAB;
    open_shards(&setup, &shards);
    n_failed = count_failures(&shards, want, VP_ERR_INVALID,
                              "b_training.h5: input_ids, row 7: 200 at place");
    assert_in_range(n_failed, 1, n - 5);
    free_epoch(&shards, want);
    close_shards(&shards);
}

static void failing_reads_are_told(void **state)
{
    struct setup setup = { .path = GOLDEN "mixed", .block = 10 };
    struct vp_batch **want;
    struct shards shards;
    struct vp_err err = { .text = "" };
    int n_failed = 0;

    (void)state;
    for (failing_read = 1;; failing_read++) {
        enum vp_status st;

        atomic_store(&n_reads, 0);
        st = try_open(&setup, &shards, &err);
        close_shards(&shards);
        if (st == VP_OK)
            break;
        assert_int_equal(st, VP_ERR_IO);
        assert_non_null(strstr(err.text, "_training.hdf5: "));
        assert_non_null(strstr(err.text, "cannot be read ("));
    }
    assert_in_range(failing_read, 21, 50);

    /* Later only the batch at hand fails; it works when asked for again, and
     * nothing half read is left. */
    failing_read = 0;
    open_shards(&setup, &shards);
    want = take_epoch(&shards);
    for (int k = 0; k < 20; k++) {
        atomic_store(&n_reads, 0);
        failing_read = 1 + k % 7;
        n_failed += count_failures(&shards, want, VP_ERR_IO, "cannot be read");
        failing_read = 0;
        count_failures(&shards, want, VP_OK, "");
    }
    assert_true(n_failed > 10);
    free_epoch(&shards, want);
    close_shards(&shards);
}

/* A block that was given up for one that could not be read is read again. */
static void half_read_blocks_are_not_used(void **state)
{
    struct setup setup = { .path = GOLDEN "deep", .block = 10 };
    struct gold gold = open_gold("deep");
    struct shards shards;
    int32_t ids[16];
    struct vp_masked row = { .tokens = ids };
    struct vp_err err = { .text = "" };

    (void)state;
    open_shards(&setup, &shards);
    for (int64_t i = 0; i < 80; i += 10)
        assert_int_equal(
            vp_source_hdf5.masked(&shards.data->source, i, &row, &err), VP_OK);
    for (int k = 1; k <= 5; k++) {
        atomic_store(&n_reads, 0);
        failing_read = k;
        assert_int_equal(
            vp_source_hdf5.masked(&shards.data->source, 200, &row, &err),
            VP_ERR_IO);
        failing_read = 0;
        for (int64_t i = 0; i < 80; i++) {
            assert_int_equal(
                vp_source_hdf5.masked(&shards.data->source, i, &row, &err),
                VP_OK);
            assert_memory_equal(ids, gold.ids + i * gold.seq, 4 * gold.seq);
        }
    }
    close_shards(&shards);
    golden_close(gold.file);
}

static void memory_may_run_out(void **state)
{
    struct setup setup = { .path = GOLDEN "plain", .block = 10 };
    struct shards shards;
    int n_failed = 0;

    (void)state;
    for (failing_allocation = 1;; failing_allocation++) {
        struct vp_err err = { .text = "" };
        enum vp_status st;

        atomic_store(&n_allocations, 0);
        st = try_open(&setup, &shards, &err);
        close_shards(&shards);
        if (st == VP_OK)
            break;
        assert_int_equal(st, VP_ERR_NOMEM);
        n_failed++;
    }
    failing_allocation = 0;
    assert_true(n_failed > 10);
}

/* libhdf5 reports errors to whoever asked for it, but not those made here. */
int H5Eset_auto2(int64_t stack, int (*print)(int64_t, void *), void *ctx);
int H5Eget_auto2(int64_t stack, int (**print)(int64_t, void *), void **ctx);

static int n_printed;

static int count_print(int64_t stack, void *ctx)
{
    (void)stack;
    (void)ctx;
    return n_printed++;
}

static void errors_of_libhdf5_are_not_printed(void **state)
{
    int (*old)(int64_t, void *), (*now)(int64_t, void *) = NULL;
    void *old_ctx, *ctx = NULL;
    struct setup setup = { .path = GOLDEN "mixed", .block = 10 };
    struct setup torn = { .path = NULL };
    struct shards shards;
    struct vp_err err = { .text = "" };
    int64_t n;
    char *bytes = golden_slurp(GOLDEN "nvidia/books_training_0.hdf5", "", &n);

    (void)state;
    bytes[4100] ^= 1; /* in a chunk of input_ids */
    torn.image = bytes;
    torn.n_image = (size_t)n;
    assert_true(H5Eget_auto2(0, &old, &old_ctx) >= 0);
    assert_true(H5Eset_auto2(0, count_print, &n_printed) >= 0);
    n_printed = 0;
    for (size_t k = 0; k < VP_COUNT_OF(mistakes); k++)
        try_open(&mistakes[k].setup, &shards, NULL);
    assert_int_equal(try_open(&torn, &shards, &err), VP_ERR_IO);
    assert_string_equal(err.text, "image: input_ids: cannot be read (inflate() "
                                  "failed); copy or write the shard anew");
    free(bytes);
    open_shards(&setup, &shards);
    close_shards(&shards);
    assert_int_equal(n_printed, 0);
    assert_true(H5Eget_auto2(0, &now, &ctx) >= 0);
    assert_true(now == count_print && ctx == &n_printed);
    assert_true(H5Eset_auto2(0, old, old_ctx) >= 0);
}

/* ---- Damage ------------------------------------------------------------- */

/* Reads a shard from memory. Returns in how many rows it differs from `gold`,
 * or -1 if it is refused. */
static int read_image(const unsigned char *bytes, int64_t n,
                      const struct gold *gold, int64_t first_row)
{
    struct setup setup = { .image = bytes, .n_image = (size_t)n };
    struct vp_err err = { .text = "" };
    struct shards shards;
    int n_wrong = 0;

    if (try_open(&setup, &shards, &err) != VP_OK) {
        if (!strstr(err.text, "image: ") || !strstr(err.text, "; ") ||
            strchr(err.text, '\n'))
            fail_msg("%s", err.text);
        return -1;
    }
    for (int64_t i = 0; i < shards.data->source.n_samples; i++) {
        int32_t ids[16] = { 0 }, types[16], mask[16], positions[16], labels[16];
        struct vp_masked row = { .tokens = ids,
                                 .types = types,
                                 .mask = mask,
                                 .positions = positions,
                                 .labels = labels };
        int32_t want[16];
        int64_t at = (first_row + i) * 16;

        assert_int_equal(
            vp_source_hdf5.masked(&shards.data->source, i, &row, &err), VP_OK);
        memset(want, -1, sizeof(want));
        for (int64_t k = 0; k < row.n_labels; k++)
            want[positions[k]] = labels[k];
        n_wrong += at + 16 > gold->n_rows * 16 ||
                   memcmp(ids, gold->ids + at, sizeof(ids)) != 0 ||
                   memcmp(types, gold->types + at, sizeof(types)) != 0 ||
                   memcmp(mask, gold->mask + at, sizeof(mask)) != 0 ||
                   memcmp(want, gold->labels + at, sizeof(want)) != 0;
    }
    close_shards(&shards);
    return n_wrong;
}

static const struct {
    const char *path, *gold;
    int64_t first_row; /* in `gold` */
    int step;          /* bytes */
    bool has_sums;     /* all numbers are under a checksum */
} images[] = {
    { GOLDEN "plain/x_training_0.h5", "plain", 0, 3, false },
    { GOLDEN "nvidia/books_training_0.hdf5", "nvidia", 0, 13, true },
    { GOLDEN "mixed/a_training.hdf5", "mixed", 0, 31, false },
    { GOLDEN "mixed/b_training.hdf5", "mixed", 43, 17, false },
    { GOLDEN "mixed/c_training.hdf5", "mixed", 65, 23, false },
    { GOLDEN "mixed/d_training.hdf5", "mixed", 82, 7, true },
};

/* One byte is wrong: refused, or at most one row differs. The exception is an
 * address that now points into unused space, which nothing can tell. */
static void flipped_bytes_do_no_harm(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(images); k++) {
        struct gold gold = open_gold(images[k].gold);
        int64_t n;
        unsigned char *bytes = (unsigned char *)golden_slurp(images[k].path, "",
                                                             &n);
        int n_refused = 0, n_same = 0, n_wild = 0;

        assert_int_equal(read_image(bytes, n, &gold, images[k].first_row), 0);
        for (int64_t i = 0; i < n; i += images[k].step * STRIDE) {
            unsigned char old = bytes[i];
            int n_wrong;

            if (i % 4 == 3)
                bytes[i] = old == 0xFF ? 0 : 0xFF;
            else
                bytes[i] ^= (unsigned char)(1 << (i * 5 / 4 % 8));
            n_wrong = read_image(bytes, n, &gold, images[k].first_row);
            n_wild += n_wrong > (images[k].has_sums ? 0 : 1);
            n_refused += n_wrong < 0;
            n_same += n_wrong == 0;
            bytes[i] = old;
        }
        assert_true(n_refused > 20 && n_same > 20);
        assert_in_range(n_wild, 0, images[k].has_sums ? 0 : 3);
        free(bytes);
        golden_close(gold.file);
    }
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(images); k++) {
        struct gold gold = open_gold(images[k].gold);
        int64_t n;
        unsigned char *bytes = (unsigned char *)golden_slurp(images[k].path, "",
                                                             &n);

        for (int64_t i = 1; i < n; i += i < 200 ? 1 : 97) {
            /* Its own allocation, so that sanitizers see the end. */
            unsigned char *part = malloc((size_t)i);

            assert_non_null(part);
            memcpy(part, bytes, (size_t)i);
            assert_int_equal(read_image(part, i, &gold, 0), -1);
            free(part);
        }
        free(bytes);
        golden_close(gold.file);
    }
}

/* The same over files, which are read in windows. */
static void damaged_files_are_refused(void **state)
{
    struct setup setup = { .path = at("x") };
    struct shards shards;
    struct vp_err err = { .text = "" };
    int64_t n;
    char *bytes = golden_slurp(GOLDEN "mixed/a_training.hdf5", "", &n);

    (void)state;
    for (int64_t cut = 0; cut < n; cut += cut < 64 ? 9 : 1013) {
        write_file("x", bytes, (size_t)cut);
        assert_int_equal(try_open(&setup, &shards, &err), VP_ERR_INVALID);
        if (cut >= 96)
            assert_non_null(strstr(err.text, "x: has "));
    }
    free(bytes);
    setup.path = folder;
    mkdir(at("a_training.h5"), 0777);
    assert_int_equal(try_open(&setup, &shards, &err), VP_ERR_IO);
    assert_non_null(strstr(err.text, "a_training.h5: cannot be read"));
}

#define PLAIN GOLDEN "plain/x_training_0.h5"
#define PACKED GOLDEN "nvidia/books_training_0.hdf5"
#define DEEP GOLDEN "deep/training.h5"
#define NEW GOLDEN "mixed/b_training.hdf5"

/* Numbers put at places of files, and what is said. The places are those of the
 * format specification: superblock at 0, root header at 96, its tree at 136,
 * heap at 680 with a hole at 6856, names at 1072, input_ids at 800. */
static const struct {
    const char *path;
    int64_t at;
    uint64_t value;
    int n_bytes;
    const char *cause;
} damages[] = {
    { PLAIN, 0, 0x88, 1, "image: is no HDF5 file" },
    { PLAIN, 8, 9, 1, "has a superblock of version 9" },
    { PLAIN, 13, 4, 1, "superblock is not one of a single file" },
    { PLAIN, 16, 0, 2, "superblock is not one of a single file" },
    { PLAIN, 24, 8, 8, "superblock is not one of a single file" },
    { PLAIN, 48, 0, 8, "superblock is not one of a single file" },
    { PLAIN, 72, 2, 4, "superblock is not one of a single file" },
    { PLAIN, 40, 9105, 8, "has 9104 of 9105 bytes" },
    { PLAIN, 40, 9103, 8, "an array of 592 bytes at byte 8512 is outside" },
    { PLAIN, 64, 9100, 8, "something of 16 bytes at byte 9100 is outside" },
    { PLAIN, 64, UINT64_MAX, 8, "is outside the file" },
    { PLAIN, 64, 97, 8, "byte 97 is no header" },
    { PLAIN, 80, 137, 8, "its root group is in two places" },
    { PLAIN, 88, 681, 8, "its root group is in two places" },
    /* Root header, names. */
    { PLAIN, 98, 2, 2, "its header has 1 of 2 messages" },
    { PLAIN, 104, 0, 4, "a part of its header is empty" },
    { PLAIN, 104, 23, 4, "a message of 16 bytes does not fit its header" },
    { PLAIN, 104, 28, 4, "a header has 4 bytes too many" },
    { PLAIN, 114, 12, 2, "a message of 12 bytes does not fit its header" },
    { PLAIN, 112, 9, 2, "has the unexpected header message 9" },
    { PLAIN, 112, 0, 2, "its root is no group" },
    { PLAIN, 116, 2, 1, "has the unexpected header message 17" },
    { PLAIN, 136, 'X', 1, "byte 136 is no node of its tree" },
    { PLAIN, 140, 1, 1, "byte 136 is no node of its tree" },
    { PLAIN, 141, 9, 1, "byte 136 is no node of its tree" },
    { PLAIN, 141, 1, 1, "byte 1072 is no node of its tree" },
    { PLAIN, 142, 33, 2, "byte 136 is no node of its tree" },
    { PLAIN, 142, 2, 2, "byte 0 is no symbol table" },
    { PLAIN, 160, 176, 8, "a name does not end" },
    { PLAIN, 168, 9000, 8, "a symbol table of 328 bytes at byte 9000" },
    { PLAIN, 176, 1000, 8, "a name does not end" },
    { PLAIN, 680, 'X', 1, "byte 680 is no heap" },
    { PLAIN, 688, 9000, 8, "a heap of 9000 bytes at byte 6736 is outside" },
    { PLAIN, 696, 161, 8, "a hole is outside its heap" },
    { PLAIN, 704, 9050, 8, "a heap of 176 bytes at byte 9050 is outside" },
    { PLAIN, 6856, 120, 8, "something in it never ends" },
    { PLAIN, 6864, 57, 8, "a hole is larger than its heap" },
    { PLAIN, 1072, 'X', 1, "byte 1072 is no symbol table" },
    { PLAIN, 1078, 9, 2, "byte 1072 is no symbol table" },
    { PLAIN, 1096, 2, 4, "input_ids is there twice or is a link" },
    { PLAIN, 1096, 3, 4, "a symbol is of no kind" },
    { PLAIN, 1120, 8, 8, "input_ids is there twice or is a link" },
    { PLAIN, 1120, 175, 8, "input_mask: there is no such data set" },
    { PLAIN, 1128, 800, 8, "byte 816 belongs to two things" },
    /* Header of input_ids: shape, type, fill value, layout. */
    { PLAIN, 802, 6, 2, "input_ids: its header has 5 of 6 messages" },
    { PLAIN, 936, 16, 2, "input_ids: a part of its header is empty" },
    { PLAIN, 936, 5, 2, "input_ids: header message 5 comes twice" },
    { PLAIN, 936, 7, 2, "input_ids: is in other files" },
    { PLAIN, 904, 0, 2, "input_ids: it has no layout" },
    { PLAIN, 824, 3, 1, "input_ids: its shape is no shape" },
    { PLAIN, 825, 4, 1, "input_ids: its shape is no shape" },
    { PLAIN, 826, 2, 1, "input_ids: its shape is no shape" },
    { PLAIN, 832, UINT64_C(1) << 61, 8, "input_ids: its shape is too large" },
    { PLAIN, 832, 38, 8, "input_ids: only 2368 of 2432 bytes are there" },
    { PLAIN, 872, 0x11, 1, "must hold integers, but has type class 1" },
    { PLAIN, 872, 0x1B, 1, "input_ids: its type is no type" },
    { PLAIN, 876, 3, 4, "input_ids: its type is no integer" },
    { PLAIN, 880, 1, 2, "input_ids: its type is no integer" },
    { PLAIN, 882, 31, 2, "input_ids: its type is no integer" },
    { PLAIN, 896, 4, 1, "input_ids: its fill value is no value" },
    { PLAIN, 897, 0, 1, "input_ids: its fill value is no value" },
    { PLAIN, 900, 3, 4, "input_ids: its fill value has 3 bytes" },
    { PLAIN, 900, 4, 4, "input_ids: its fill value has 4 bytes" },
    { PLAIN, 912, 2, 1, "input_ids: has a layout of version 2" },
    { PLAIN, 913, 0, 1, "input_ids: its layout is cut off" },
    { PLAIN, 913, 2, 1, "input_ids: its chunks have -1 dimensions" },
    { PLAIN, 913, 3, 1, "input_ids: is in other files, by layout 3" },
    { PLAIN, 914, UINT64_MAX, 8, "input_ids: it was never written" },
    { PLAIN, 914, 9000, 8, "an array of 2368 bytes at byte 9000 is outside" },
    { PLAIN, 914, 2049, 8, "belongs to two things" },
    { PLAIN, 922, 2367, 8, "input_ids: only 2367 of 2368 bytes are there" },
    /* Filters, chunks, their tree. */
    { PACKED, 912, 3, 1, "input_ids: its filters are no filters" },
    { PACKED, 913, 0, 1, "input_ids: its filters are no filters" },
    { PACKED, 913, 2, 1, "input_ids: its filters are cut off" },
    { PACKED, 920, 4, 2, "input_ids: is packed by filter 4" },
    { PACKED, 922, 7, 2, "input_ids: filter 1 is cut off" },
    { PACKED, 926, 2, 2, "input_ids: filter 1 is cut off" },
    { PACKED, 936, 10, 4, "input_ids: filter 1 is set wrong" },
    { PACKED, 953, 1, 1, "input_ids: it has filters but no chunks" },
    { PACKED, 954, 2, 1, "input_ids: its chunks have 1 dimensions" },
    { PACKED, 955, UINT64_MAX, 8, "input_ids: only 0 of 1 chunks are there" },
    { PACKED, 955, 22000, 8, "at byte 22000 is outside the file" },
    { PACKED, 963, 0, 4, "input_ids: its chunks are too large" },
    { PACKED, 963, 1 << 30, 4, "input_ids: its chunks are too large" },
    { PACKED, 963, 71, 4, "has gzip chunks longer than its length 70" },
    { PACKED, 963, 69, 4, "only 1 of 2 chunks are there" },
    { PACKED, 971, 8, 4, "input_ids: its chunks have another type" },
    { PACKED, 1406, 0, 2, "input_ids: only 0 of 1 chunks are there" },
    { PACKED, 1424, 0, 4, "a chunk of 4480 bytes is stored in 0" },
    { PACKED, 1424, 5000, 4, "a chunk of 4480 bytes is stored in 5000" },
    { PACKED, 1428, 1, 4, "a chunk of 4480 bytes is stored in 1559" },
    { PACKED, 1428, 2, 4, "leaves out a filter that is not there" },
    { PACKED, 1432, 7, 8, "a chunk is at 7 of 70" },
    { PACKED, 1432, UINT64_MAX, 8, "input_ids: its chunks are in disorder" },
    { PACKED, 1448, 1, 8, "input_ids: its chunks are in disorder" },
    { PACKED, 1456, 22000, 8, "a chunk of 1559 bytes at byte 22000" },
    { PACKED, 1456, 4017, 8, "belongs to two things" },
    { DEEP, 1405, 2, 1, "byte 14952 is no node of its tree" },
    { DEEP, 1472, 224, 8, "its chunks are in disorder" },
    { DEEP, 1472, 232, 8, "its chunks are in disorder" },
    { DEEP, 15024, 0, 8, "its chunks are in disorder" },
    { DEEP, 17264, 300, 8, "its chunks are in disorder" },
    { DEEP, 15048, 4016, 8, "byte 4016 belongs to two things" },
    { DEEP, 12342, 10, 2, "only 67 of 68 chunks are there" },
    /* Newer headers have checksums. */
    { NEW, 20, 0, 8, "has an extension at byte 0" },
    { NEW, 28, 17497, 8, "has 17496 of 17497 bytes" },
    { NEW, 36, 17491, 8, "something of 6 bytes at byte 17491 is outside" },
    { NEW, 48, 'X', 1, "byte 48 is no header" },
    { NEW, 70, 0xEE, 1, "its header has another checksum" },
};

static void damages_are_named(void **state)
{
    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(damages); k++) {
        struct setup setup = { 0 };
        struct shards shards;
        struct vp_err err = { .text = "" };
        int64_t n;
        char *bytes = golden_slurp(damages[k].path, "", &n);
        enum vp_status st;

        for (int i = 0; i < damages[k].n_bytes; i++)
            bytes[damages[k].at + i] = (char)(damages[k].value >> 8 * i);
        setup.image = bytes;
        setup.n_image = (size_t)n;
        st = try_open(&setup, &shards, &err);
        if (st != VP_ERR_INVALID || !strstr(err.text, damages[k].cause))
            fail_msg("case %d: status %d: %s", (int)k, st, err.text);
        close_shards(&shards);
        free(bytes);
    }
}

/* Over a thousand mutations of every kind of file, the same each time. */
static void mutated_files_do_no_harm(void **state)
{
    unsigned char mutant[40000], *bytes[VP_COUNT_OF(images)];
    int64_t n[VP_COUNT_OF(images)];

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(images); k++)
        bytes[k] = (unsigned char *)golden_slurp(images[k].path, "", &n[k]);
    for (uint32_t i = 0; i < N_MUTANTS; i += STRIDE) {
        size_t k = i % VP_COUNT_OF(images);
        struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, 0, i, 0, 0);

        memcpy(mutant, bytes[k], (size_t)n[k]);
        for (uint32_t j = 0; j < 1 + r.v[0] % 4; j++) {
            struct vp_rng4 s = vp_rng(1, VP_RNG_TEST, 1 + j, i, 0, 0);
            uint32_t to = vp_rng_below(s.v[0], (uint32_t)n[k] - 8);
            uint32_t from = vp_rng_below(s.v[1], (uint32_t)n[k] - 8);

            if (s.v[2] % 2) /* a word from elsewhere, or a byte */
                memmove(mutant + to / 4 * 4, mutant + from / 4 * 4, 8);
            else
                mutant[to] = (unsigned char)s.v[3];
        }
        fuzz_hdf5(mutant, (size_t)n[k]);
    }
    for (size_t k = 0; k < VP_COUNT_OF(images); k++)
        free(bytes[k]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_show_the_shards),
        cmocka_unit_test(large_blocks_are_bounded),
        cmocka_unit_test(unigram_loss_is_that_of_the_labels),
        cmocka_unit_test(order_is_stable),
        cmocka_unit_test(runs_take_every_sample_once),
        cmocka_unit_test(runs_are_mixed),
        cmocka_unit_test(runs_are_announced),
        cmocka_unit_test(every_sample_can_be_resumed),
        cmocka_unit_test(prefetching_changes_nothing),
        cmocka_unit_test(threads_may_fill_at_once),
        cmocka_unit_test(reading_is_even_and_allocates_nothing),
        TEST_IN_FOLDER(names_decide),
        TEST_IN_FOLDER(shards_come_in_order_of_names),
        TEST_IN_FOLDER(content_decides_what_is_read),
        TEST_IN_FOLDER(what_lies_beside_shards_is_said),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(what_is_not_used_may_be_missing),
        TEST_IN_FOLDER(shards_have_one_length),
        cmocka_unit_test(other_models_need_other_data),
        TEST_IN_FOLDER(files_may_change_while_in_use),
        TEST_IN_FOLDER(bad_rows_are_found_in_time),
        cmocka_unit_test(failing_reads_are_told),
        cmocka_unit_test(half_read_blocks_are_not_used),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(errors_of_libhdf5_are_not_printed),
        cmocka_unit_test(flipped_bytes_do_no_harm),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(damages_are_named),
        TEST_IN_FOLDER(damaged_files_are_refused),
        cmocka_unit_test(mutated_files_do_no_harm),
    };

    return cmocka_run_group_tests_name("hdf5", tests, NULL, NULL);
}
