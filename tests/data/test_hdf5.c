/* HDF5 shards for BERT give the batches that tests/golden/make_hdf5.py stored,
 * in a stable order, after resuming, with prefetching and from several
 * threads. */
#include "lib/datalib.h"
#include "lib/golden.h"
#include "lib/hdf5lib.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- Finding the rows of a batch in the shards -------------------------- */

/* Writes the labels of row i of the batch to `out`, with -1 elsewhere. */
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

/* Returns true if `got` is `want` followed by padding. */
static bool same_row(const int32_t *got, const int32_t *want, int64_t n_got,
                     int64_t n_want, int32_t padding)
{
    for (int64_t t = n_want; t < n_got; t++) {
        if (got[t] != padding)
            return false;
    }
    return memcmp(got, want, (size_t)n_want * sizeof(*got)) == 0;
}

/* Returns the row of the shards that is in row i of the batch. */
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
    /* Unused entries follow the used ones; whole sequences may be padding. */
    for (int64_t k = 0; k < shards->dims[batch->bucket].n_labels; k++)
        assert_int_equal(batch->array[VP_ROLE_LABELS][k] >= 0, k < n_labels);
    for (int64_t t = batch->n_samples * shards->dims[0].seq;
         t < shards->dims[0].batch * shards->dims[0].seq; t++)
        assert_int_equal(batch->array[VP_ROLE_MASK][t], 0);
}

/* Reads an epoch. `order` receives the rows of the shards in their order;
 * returns their number. */
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

/* ---- Contents of batches ------------------------------------------------ */

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
    assert_true(n < 40 || n_same < n / 4); /* epochs have different orders */
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

/* Without a given block size, one block holds all rows of this set. */
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
    assert_int_equal(n_reads, 0); /* opening has read the only block */
    assert_string_equal(vp_data_info(shards.data)->what,
                        "HDF5: 1 shard, 270 samples of 8 tokens");
    close_shards(&shards);
    golden_close(gold.file);
}

/* The unigram loss is the entropy of the labels, counted here. With small
 * blocks only the first rows are counted. */
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

/* ---- Order of samples --------------------------------------------------- */

/* 93 of 103 rows are for training, in runs of 9, four of which are mixed. */
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
    /* The order depends neither on batch sizes nor on earlier reads. */
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

/* Every sample occurs once per epoch, all samples of a run are in the same set,
 * and a short last run is in the last set. */
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

/* Within a set all its runs are mixed, and each set is shuffled in another
 * order. */
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
    /* 800 samples begin a batch; of the others 1 in 4 shares its run by
     * chance. */
    assert_in_range(n_follow, 800, 830);
    assert_in_range(n_as_before, 0, 20);
    for (int k = 0; k < 4; k++)
        assert_in_range(n_steps[k], 450, 1150);
    /* Each run may be the first of an epoch. */
    for (uint64_t epoch = 0; epoch < 200; epoch++) {
        struct vp_data_slot slot;

        vp_sampler_slot(sampler, 800 * epoch, &slot);
        n_first[vp_sampler_sample(sampler, &slot, 0) / 1000]++;
    }
    for (int k = 0; k < 8; k++)
        assert_in_range(n_first[k], 10, 45);
    vp_sampler_free(sampler);
}

/* vp_sampler_ahead() returns the runs of the next set one after the other, and
 * none in the first eighth of a set. There are 8 sets of 80 samples, then a set
 * of 30, which is too short to announce all runs. */
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
        /* Only 30 samples precede the first set of an epoch. */
        for (int r = 0, n_known = 0; r < 34; r++) {
            n_known += is_known[r];
            assert_true(!is_known[r] || is_used[r]);
            if (r == 33)
                assert_int_equal(n_known, slot.first == 75 ? 1 : 4);
        }
    }
    vp_sampler_free(sampler);
}

/* ---- Resuming, prefetching, threads ------------------------------------- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests_name("hdf5", tests, NULL, NULL);
}
