/* The right files of a folder are read as HDF5 shards, in order of their names,
 * and each mistake in a file is reported in one line. */
#include "data/internal.h"
#include "lib/datalib.h"
#include "lib/golden.h"
#include "lib/hdf5lib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Selection of files ------------------------------------------------- */

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
    /* Not shards: wrong name, wrong extension, hidden file. */
    copy_file(GOLDEN "plain/x_training_1.h5", "b_train.h5");
    copy_file(GOLDEN "plain/x_training_1.h5", "b_training.h5.bak");
    copy_file(GOLDEN "plain/x_training_1.h5", ".b_training.h5");
    copy_file(GOLDEN "plain/x_training_1.h5", "training");
    write_text("training.txt", "text");
    mkdir(at("training"), 0777);
    assert_int_equal(count_samples(&train), 102 - 10);
    /* "latest" contains "test", but the shard is for training. */
    copy_file(GOLDEN "plain/x_training_1.h5", "latest_training.h5");
    assert_int_equal(count_samples(&train), 103 - 10);
    copy_file(GOLDEN "plain/x_training_1.h5", "x_test_0.h5");
    assert_int_equal(count_samples(&train), 103);
    assert_int_equal(count_samples(&eval), 1);
    /* A single file is read whatever its name. */
    train.path = at("b_training.h5.bak");
    assert_int_equal(count_samples(&train), 1);
    assert_int_equal(symlink(GOLDEN "plain/x_training_0.h5", at("y_test.h5")),
                     0);
    assert_int_equal(count_samples(&eval), 38);
}

/* Shards are read in the order of their names. */
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

/* ---- Error messages and notices ----------------------------------------- */

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
      "12 rows of 16 tokens with 0 labels cannot be used",
      "anew" },
    { { .path = BAD("lzf_earliest") },
      "input_ids: is compressed with filter 32000",
      "with gzip" },
    { { .path = BAD("lzf_v110") },
      "input_ids: is compressed with filter 32000",
      "with gzip" },
    { { .path = BAD("growing") },
      "input_ids: has gzip chunks longer than its length 12",
      "smaller" },
    { { .path = BAD("virtual") }, "input_ids: is in other files", "into the" },
    { { .path = BAD("external") }, "input_ids: is in other files", "into" },
    { { .path = BAD("soft") }, "input_ids occurs twice or is a link", "anew" },
    { { .path = BAD("unfinished") },
      "input_ids: only 3 of 4 chunks are stored",
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
      "masked_lm_positions, row 9: 5 at place 2 occurs twice",
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
    { { .path = GOLDEN "plain.idx" },
      "is not an HDF5 file",
      "out of data_dir" },
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

/* Other files beside shards are not read, and a notice says so. */
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
                           ".h5 1, folders 1; only *training* and *test* "
                           "shards (.hdf5, .h5) are read"));
    assert_null(vp_data_notice(data, 1));
    vp_data_close(data);
}

/* next_sentence_labels is not used, so it may be missing. */
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

/* ---- Errors inside libhdf5 ---------------------------------------------- */

/* libhdf5 prints errors by a handler of the program. The reader must not
 * trigger it, and must leave it installed. */
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
    bytes[4100] ^= 1; /* inside a chunk of input_ids */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(names_decide),
        TEST_IN_FOLDER(shards_come_in_order_of_names),
        TEST_IN_FOLDER(content_decides_what_is_read),
        TEST_IN_FOLDER(what_lies_beside_shards_is_said),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(what_is_not_used_may_be_missing),
        TEST_IN_FOLDER(shards_have_one_length),
        cmocka_unit_test(other_models_need_other_data),
        cmocka_unit_test(errors_of_libhdf5_are_not_printed),
    };

    return cmocka_run_group_tests_name("hdf5_files", tests, NULL, NULL);
}
