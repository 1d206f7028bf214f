/* HDF5 files that change or fail while they are read, and failed allocations,
 * are reported by the batch concerned; reading allocates nothing. */
#include "lib/datalib.h"
#include "lib/golden.h"
#include "lib/hdf5lib.h"

#include <fcntl.h>
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

/* ---- Even reading without allocations ----------------------------------- */

/* Returns all batches of an epoch. */
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

/* Each block is read once in an epoch, at most one per batch after the start,
 * and nothing is allocated. */
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
        /* The last set of an epoch is short, so the next one is not read
         * ahead. */
        if (m % n > 12 && n_reads - n_before > n_most)
            n_most = n_reads - n_before;
    }
    assert_int_equal(n_allocations, 0);
    assert_int_equal(n_most, 5); /* one block of each of 5 data sets */
    /* There are 27 blocks; the first 4 of the first epoch are in memory. */
    assert_in_range(n_reads, 5 * (3 * 27 - 4), 5 * (3 * 27 + 4));
    close_shards(&shards);
}

/* ---- Failing files and memory ------------------------------------------- */

/* Every batch of an epoch equals `want`, or fails with `status` and `text`.
 * Returns the number of failures. */
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

/* A shard is missing or changed: batches that need it fail, and succeed again
 * once the file is back. */
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
    /* Another size with the same time, then the same size with other times. */
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
    /* Size and time are the same, but the file is not HDF5. */
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

/* Rows are checked when they are read, so only batches that need a bad row
 * fail. */
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

    /* Later only the current batch fails; it succeeds when it is requested
     * again, and no half-read block is used. */
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

/* A block whose slot was overwritten by a failed read is read again. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_is_even_and_allocates_nothing),
        TEST_IN_FOLDER(files_may_change_while_in_use),
        TEST_IN_FOLDER(bad_rows_are_found_in_time),
        cmocka_unit_test(failing_reads_are_told),
        cmocka_unit_test(half_read_blocks_are_not_used),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests_name("hdf5_faults", tests, NULL, NULL);
}
