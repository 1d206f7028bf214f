/* CHID files give the batches that tests/golden/make_chid.py stored, runs
 * resume at any batch, the index has a bounded size, and damaged files are
 * refused. */
#include "data/chid/chid.h"
#include "data/internal.h"
#include "fuzz/chid_input.h"
#include "lib/datalib.h"
#include "lib/golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/chid"

enum { BATCH = 4, SEQ = 12 };

static const struct vp_dims dims = { BATCH, SEQ, 0, 0 };
static int max_offsets;

static struct vp_data_config config_of(const char *path)
{
    return (struct vp_data_config){
        .source = VP_DATA_FILES,
        .task = VP_DATA_CAUSAL_LM,
        .path = path,
        .vocab = 300,
        .seed = 7,
        .dims = &dims,
        .n_dims = 1,
    };
}

static enum vp_status open_with_offsets(const struct vp_data_config *config,
                                        const struct vp_data_window *window,
                                        struct vp_source *source,
                                        struct vp_err *err)
{
    (void)window;
    return vp_chid_open(config, max_offsets, source, err);
}

static struct vp_data *open_bounded(const struct vp_data_config *config, int n)
{
    static struct vp_source_ops ops;
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };

    ops = vp_source_chid;
    ops.open = open_with_offsets;
    max_offsets = n;
    if (vp_data_open_source(config, &ops, &data, &err) != VP_OK)
        fail_msg("%s", err.text);
    return data;
}

static void assert_epochs(struct vp_data *data, const char *split)
{
    static const struct {
        const char *name;
        enum vp_role role;
    } roles[] = { { "tokens", VP_ROLE_TOKENS },
                  { "labels", VP_ROLE_LABELS },
                  { "mask", VP_ROLE_MASK } };
    struct golden *file = golden_open(GOLDEN "_batches");
    struct vp_batch *batch = make_batch(data);
    int64_t n;
    char name[32];
    const int32_t *rows;

    snprintf(name, sizeof(name), "%s.rows", split);
    rows = golden_i32(file, name, NULL, &n);
    assert_int_equal(2 * vp_data_info(data)->n_batches, n);
    /* The second half first, as in a resumed run. */
    for (int64_t k = 0; k < n; k++) {
        int64_t m = (k + n / 2 + 1) % n;

        fill(data, (uint64_t)m, batch);
        assert_int_equal(batch->n_samples, rows[m]);
        for (size_t r = 0; r < VP_COUNT_OF(roles); r++) {
            snprintf(name, sizeof(name), "%s.%s", split, roles[r].name);
            assert_memory_equal(batch->array[roles[r].role],
                                golden_i32(file, name, NULL, NULL) +
                                    m * BATCH * SEQ,
                                BATCH * SEQ * 4);
        }
    }
    vp_batch_free(batch);
    golden_close(file);
}

static void batches_are_what_python_wrote(void **state)
{
    struct vp_data_config config = config_of(GOLDEN);
    struct vp_data *data = open_data(&config);

    (void)state;
    assert_string_equal(vp_data_info(data)->what,
                        "CHID: 45 samples of at most 13 tokens");
    assert_epochs(data, "train");
    vp_data_close(data);
    config.split = VP_DATA_EVAL;
    data = open_data(&config);
    assert_epochs(data, "eval");
    vp_data_close(data);
}

/* Every size of the index gives the same samples. */
static void the_index_is_bounded(void **state)
{
    static const int sizes[] = { 2, 4, 6, 30, 44, 46, 100 };
    struct vp_data_config config = config_of(GOLDEN);

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sizes); i++) {
        struct vp_data *data = open_bounded(&config, sizes[i]);

        assert_epochs(data, "train");
        vp_data_close(data);
    }
}

#define IDS "0,1,2,3,4,5,6,7,8,9"
#define ONE "{\"sent\": [1, 2], \"truth\": 3}"

static void other_spellings_are_read(void **state)
{
    static const char *const good[] = {
        "[[" IDS "],[" ONE "]]",
        " [ [" IDS "] , [ {\"truth\":9,\"sent\":[1,2,299]},\n" ONE " ] ]\r\n\t",
    };
    struct vp_err err = { .text = "" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(good); i++) {
        write_text("x.json", good[i]);
        if (chid_fuzz_read(at("x.json"), &err) != VP_OK)
            fail_msg("%s", err.text);
    }
}

static void mistakes_are_explained(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "", "offset 0: the file ends where '[' belongs" },
        { "{", "offset 0: '[' belongs here" },
        { "[[1,2],[]]", "offset 6: ten tokens of choices belong before this" },
        { "[[" IDS ",1],[]]", "offset 23: the sentence has too many ids" },
        { "[[" IDS "],[]]", "holds no sample; set data_dir to another file" },
        { "[[" IDS "],[]] x", "offset 27: the file should end here" },
        { "[[" IDS "],[" ONE "] x", "offset 54: ']' belongs here" },
        { "[[" IDS "],[{\"sent\": [1, 300], \"truth\": 3}]]",
          "offset 40: a whole number from 0 to 299 belongs here" },
        { "[[" IDS "],[{\"sent\": [1, -2], \"truth\": 3}]]",
          "offset 37: a whole number from 0 to 299" },
        { "[[" IDS "],[{\"sent\": [1, 2.5], \"truth\": 3}]]",
          "offset 38: a whole number from 0 to 299" },
        { "[[" IDS "],[{\"sent\": [1, 2], \"truth\": 10}]]",
          "offset 52: a whole number from 0 to 9 belongs here" },
        { "[[" IDS "],[{\"sent\": [1], \"truth\": 1}]]",
          "the sample before has no \"truth\", or no \"sent\" of two ids" },
        { "[[" IDS "],[{\"sent\": []}]]",
          "the sample before has no \"truth\"" },
        { "[[" IDS "],[{\"sent\": [1,2], \"sent\": [3,4]}]]", "occurs twice" },
        { "[[" IDS "],[{\"text\": [1,2]}]]", "is not \"sent\" or \"truth\"" },
        { "[[" IDS "],[{\"s\\u0065nt\": [1,2]}]]",
          "is not \"sent\" or \"truth\"" },
        { "[[" IDS
          "],[{\"sent\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1], \"truth\": 1}]]",
          "offset 24: the sentence needs 13 positions, but seq_length is 12" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_err err = { .text = "" };

        write_text("x.json", cases[i].text);
        assert_int_equal(chid_fuzz_read(at("x.json"), &err), VP_ERR_INVALID);
        if (!strstr(err.text, cases[i].want))
            fail_msg("'%s' is not in '%s'", cases[i].want, err.text);
    }
}

static void the_files_are_found(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    write_text("train.json", "[[" IDS "],[" ONE "," ONE "]]");
    data = open_data(&config);
    assert_int_equal(vp_data_info(data)->n_samples, 2);
    vp_data_close(data);
    write_text("more.json", "[[" IDS "],[" ONE "]]");
    assert_int_equal(vp_data_open(&config, &data, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "more.json and train.json are both for "
                                     "training; set data_dir to one file"));
    /* JSON of another form is read as text. */
    write_text("x.json", "{\"a\": 1, \"text of some length\": 2, \"b\": []}");
    config.path = at("x.json");
    data = open_data(&config);
    assert_non_null(strstr(vp_data_info(data)->what, "text: 1 file"));
    vp_data_close(data);
}

/* 60 cuts of a file are refused; 400 changes of one byte are refused or
 * read. */
static void damaged_files_are_refused(void **state)
{
    unsigned char good[4096], bad[4096];
    FILE *file = fopen(GOLDEN "/dev.json", "rb");
    size_t n;
    int n_refused = 0;

    (void)state;
    assert_non_null(file);
    n = fread(good, 1, sizeof(good), file);
    fclose(file);
    for (size_t i = 0; i < 60; i++) {
        struct vp_err err = { .text = "" };

        write_file("x.json", good, i * n / 60);
        assert_int_equal(chid_fuzz_read(at("x.json"), &err), VP_ERR_INVALID);
        assert_non_null(strstr(err.text, "x.json: offset "));
    }
    for (uint32_t i = 0; i < 400; i++) {
        struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, 0, i, 0, 0);
        struct vp_err err = { .text = "" };

        memcpy(bad, good, n);
        bad[r.v[0] % n] = (unsigned char)("[]{},:\"09 xst\0-."[r.v[1] % 16]);
        write_file("x.json", bad, n);
        if (chid_fuzz_read(at("x.json"), &err) != VP_OK) {
            n_refused++;
            assert_non_null(strstr(err.text, "offset "));
        }
    }
    assert_true(n_refused > 100);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_what_python_wrote),
        cmocka_unit_test(the_index_is_bounded),
        TEST_IN_FOLDER(other_spellings_are_read),
        TEST_IN_FOLDER(mistakes_are_explained),
        TEST_IN_FOLDER(the_files_are_found),
        TEST_IN_FOLDER(damaged_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
