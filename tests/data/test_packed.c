/* Sentences that are packed and masked while batches are made give the expected
 * BERT samples; each epoch masks other tokens, and damaged files are
 * refused. */
#include "data/data.h"
#include "fuzz/packed_input.h"
#include "lib/datalib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/sentences/"

enum { MAX_SAMPLES = 512 };

/* The samples that make_sentences.py computed. */
static int32_t expected[MAX_SAMPLES][PACKED_SEQ];
static int n_expected, n_in[MAX_SAMPLES];

static void read_expected(void)
{
    FILE *file = fopen(GOLDEN "expected.bin", "rb");
    int32_t n;

    assert_non_null(file);
    n_expected = 0;
    while (fread(&n, 4, 1, file) == 1) {
        assert_true(n_expected < MAX_SAMPLES && n < PACKED_SEQ);
        n_in[n_expected] = n;
        assert_int_equal(fread(expected[n_expected++], 4, (size_t)n, file), n);
    }
    fclose(file);
}

/* Restores the masked tokens of a row and removes special ones. Returns the
 * number of ids. */
static int restore_row(const struct vp_batch *batch, int64_t row, int32_t *out)
{
    int32_t ids[PACKED_SEQ];
    int n = 0, n_seps = 0;

    memcpy(ids, batch->array[VP_ROLE_TOKENS] + row * PACKED_SEQ, sizeof(ids));
    for (int k = 0; k < PACKED_BATCH * PACKED_SEQ; k++) {
        int64_t p = batch->array[VP_ROLE_LABEL_ROWS][k];

        if (p >= 0 && p / PACKED_SEQ == row) {
            assert_true(p % PACKED_SEQ > 0);
            ids[p % PACKED_SEQ] = batch->array[VP_ROLE_LABELS][k];
        }
    }
    assert_int_equal(ids[0], 1);
    for (int t = 1; t < PACKED_SEQ && ids[t] != 0; t++) {
        if (ids[t] == 2)
            n_seps++;
        else
            out[n++] = ids[t];
        assert_int_equal(batch->array[VP_ROLE_TYPES][row * PACKED_SEQ + t],
                         n_seps - (ids[t] == 2) > 0);
    }
    assert_int_equal(n_seps, 2);
    return n;
}

/* Every id occurs once in the file, so the first one identifies the sample. */
static int find_expected(int32_t first)
{
    for (int i = 0; i < n_expected; i++)
        if (expected[i][0] == first)
            return i;
    fail_msg("no sample begins with %d", first);
    return -1;
}

static void check_epoch(enum vp_data_split split)
{
    struct vp_data_config config = packed_config(GOLDEN);
    struct vp_data *data;
    struct vp_batch *batch;
    int n_seen[MAX_SAMPLES] = { 0 };

    config.split = split;
    data = open_data(&config);
    batch = make_batch(data);
    for (int64_t m = 0; m < vp_data_info(data)->n_batches; m++) {
        fill(data, (uint64_t)m, batch);
        for (int64_t row = 0; row < batch->n_samples; row++) {
            int32_t ids[PACKED_SEQ];
            int n = restore_row(batch, row, ids), i = find_expected(ids[0]);

            assert_int_equal(n, n_in[i]);
            assert_memory_equal(ids, expected[i], (size_t)n * 4);
            n_seen[i]++;
        }
    }
    for (int i = 0; i < n_expected; i++)
        assert_int_equal(n_seen[i], (i % 10 == 9) == (split == VP_DATA_EVAL));
    vp_batch_free(batch);
    vp_data_close(data);
}

static void samples_are_as_worked_out(void **state)
{
    (void)state;
    read_expected();
    assert_true(n_expected > 50);
    check_epoch(VP_DATA_TRAIN);
    check_epoch(VP_DATA_EVAL);
}

/* Writes the positions of the masked tokens of the sample that begins with
 * `first`, in epoch `epoch`. */
static void hidden_of(const struct vp_data *data, int epoch, int32_t first,
                      char out[256])
{
    struct vp_batch *batch = make_batch(data);
    int64_t n = vp_data_info(data)->n_batches;

    out[0] = '\0';
    for (int64_t m = epoch * n; m < (epoch + 1) * n; m++) {
        fill(data, (uint64_t)m, batch);
        for (int64_t row = 0; row < batch->n_samples; row++) {
            int32_t ids[PACKED_SEQ];

            restore_row(batch, row, ids);
            for (int k = 0; ids[0] == first && k < PACKED_BATCH * PACKED_SEQ;
                 k++) {
                int64_t p = batch->array[VP_ROLE_LABEL_ROWS][k];

                if (p >= 0 && p / PACKED_SEQ == row)
                    snprintf(out + strlen(out), 256 - strlen(out), "%d ",
                             (int)(p % PACKED_SEQ));
            }
        }
    }
    vp_batch_free(batch);
}

static void epochs_hide_other_tokens(void **state)
{
    struct vp_data_config config = packed_config(GOLDEN);
    struct vp_data *data = open_data(&config);
    int n_other = 0;

    (void)state;
    read_expected();
    for (int i = 0; i < 8; i++) {
        char one[256], two[256], again[256];

        hidden_of(data, 0, expected[i][0], one);
        hidden_of(data, 1, expected[i][0], two);
        hidden_of(data, 0, expected[i][0], again);
        assert_string_equal(one, again);
        assert_true(one[0] && two[0]);
        n_other += strcmp(one, two) != 0;
    }
    assert_true(n_other >= 6);
    vp_data_close(data);
}

/* With random_next, a sample still begins with its own first sentence, and
 * about half of the second parts are random. */
static void second_parts_may_be_random(void **state)
{
    struct vp_data_config config = packed_config(GOLDEN);
    struct vp_data *data;
    struct vp_batch *batch;
    int n_random = 0, n = 0;

    (void)state;
    read_expected();
    config.random_next = 0.5f;
    data = open_data(&config);
    batch = make_batch(data);
    for (int64_t m = 0; m < 4 * vp_data_info(data)->n_batches; m++) {
        fill(data, (uint64_t)m, batch);
        for (int64_t row = 0; row < batch->n_samples; row++, n++) {
            int32_t ids[PACKED_SEQ];
            int n_ids = restore_row(batch, row, ids);
            int i = find_expected(ids[0]);

            n_random += n_ids != n_in[i] ||
                        memcmp(ids, expected[i], (size_t)n_ids * 4) != 0;
        }
    }
    assert_true(abs(2 * n_random - n) < n / 4);
    vp_batch_free(batch);
    vp_data_close(data);
}

/* ---- Damaged files ------------------------------------------------------ */

static size_t read_golden(const char *name, unsigned char *out, size_t room)
{
    char path[512];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "%s%s", GOLDEN, name);
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(out, 1, room, file);
    fclose(file);
    return n;
}

/* Flips a bit in every byte of the index, and cuts both files at 49 places. */
static void damaged_files_are_refused(void **state)
{
    static unsigned char idx[1 << 16], bin[1 << 16];
    size_t n_idx = read_golden("train.idx", idx, sizeof(idx));
    size_t n_bin = read_golden("train.bin", bin, sizeof(bin));
    char path[300];
    int n = 0;

    (void)state;
    write_file("x.bin", bin, n_bin);
    snprintf(path, sizeof(path), "%s", at("x.idx"));
    for (size_t i = 0; i < n_idx; i++) {
        struct vp_err err = { .text = "" };

        idx[i] ^= 0x80;
        write_file("x.idx", idx, n_idx);
        idx[i] ^= 0x80;
        if (packed_read(path, 0, &err) == VP_OK)
            fail_msg("byte %zu of the index was changed", i);
        assert_non_null(strstr(err.text, folder));
        n++;
    }
    for (size_t cut = 1; cut < 50; cut++) {
        struct vp_err err = { .text = "" };

        write_file("x.idx", idx, n_idx - cut * n_idx / 50);
        assert_int_not_equal(packed_read(path, 0, &err), VP_OK);
        write_file("x.idx", idx, n_idx);
        write_file("x.bin", bin, n_bin - cut * n_bin / 50);
        assert_int_not_equal(packed_read(path, 0, &err), VP_OK);
        assert_non_null(strstr(err.text, folder));
        write_file("x.bin", bin, n_bin);
    }
    assert_true(n > 50);
}

/* An id outside vocab is refused with its offset. */
static void foreign_ids_are_refused(void **state)
{
    static unsigned char idx[1 << 16], bin[1 << 16];
    size_t n_idx = read_golden("train.idx", idx, sizeof(idx));
    size_t n_bin = read_golden("train.bin", bin, sizeof(bin));
    struct vp_err err = { .text = "" };

    (void)state;
    bin[101] = 0xFF;
    write_file("x.idx", idx, n_idx);
    write_file("x.bin", bin, n_bin);
    assert_int_not_equal(packed_read(at("x.idx"), 0, &err), VP_OK);
    assert_non_null(strstr(err.text, "x.bin: offset 100:"));
}

static void use_is_checked(void **state)
{
    struct vp_data_config config = packed_config(GOLDEN);

    (void)state;
    config.has_special = false;
    assert_line(&config, "set tokenizer to the one that they were made with");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_as_worked_out),
        cmocka_unit_test(epochs_hide_other_tokens),
        cmocka_unit_test(second_parts_may_be_random),
        TEST_IN_FOLDER(damaged_files_are_refused),
        TEST_IN_FOLDER(foreign_ids_are_refused),
        cmocka_unit_test(use_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
