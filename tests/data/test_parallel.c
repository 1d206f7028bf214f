/* Parallel text in all its file formats gives the batches that
 * tests/golden/make_parallel.py stored; mistakes and damaged files are
 * refused. */
#include "data/parallel.h"
#include "lib/datalib.h"
#include "lib/golden.h"

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

#define GOLDEN VP_SOURCE_DIR "/tests/golden/parallel"

enum { N_BUCKETS = 4 };

static const struct vp_dims dims[N_BUCKETS] = {
    { 32, 10, 10, 0 },
    { 16, 20, 20, 0 },
    { 10, 30, 30, 0 },
    { 8, 40, 40, 0 },
};

static struct vp_data_config config_of(const char *path)
{
    return (struct vp_data_config){
        .source = VP_DATA_FILES,
        .task = VP_DATA_PAIRS,
        .path = path,
        .source_lang = "de",
        .target_lang = "en",
        .seed = 7,
        .dims = dims,
        .n_dims = N_BUCKETS,
    };
}

static void check_gold(const struct vp_data_config *config)
{
    static const struct {
        const char *name;
        enum vp_role role;
    } roles[] = { { "tokens", VP_ROLE_TOKENS },
                  { "mask", VP_ROLE_MASK },
                  { "target", VP_ROLE_TARGET_TOKENS },
                  { "labels", VP_ROLE_LABELS } };
    const char *split = config->split == VP_DATA_EVAL ? "eval" : "train";
    struct golden *file = golden_open(GOLDEN "_batches");
    struct vp_data *data = open_data(config);
    struct vp_batch *batch = make_batch(data);
    const int32_t *buckets, *rows;
    int64_t n, at = 0;
    char name[32];

    snprintf(name, sizeof(name), "%s.bucket", split);
    buckets = golden_i32(file, name, NULL, &n);
    snprintf(name, sizeof(name), "%s.rows", split);
    rows = golden_i32(file, name, NULL, NULL);
    assert_int_equal(2 * vp_data_info(data)->n_batches, n);
    for (int64_t m = 0; m < n; m++) {
        int64_t n_elements = vp_dims_role(&dims[buckets[m]], VP_ROLE_TOKENS);

        fill(data, (uint64_t)m, batch);
        assert_int_equal(batch->bucket, buckets[m]);
        assert_int_equal(batch->n_samples, rows[m]);
        for (size_t r = 0; r < VP_COUNT_OF(roles); r++) {
            snprintf(name, sizeof(name), "%s.%s", split, roles[r].name);
            assert_memory_equal(batch->array[roles[r].role],
                                golden_i32(file, name, NULL, NULL) + at,
                                n_elements * 4);
        }
        at += n_elements;
    }
    vp_batch_free(batch);
    vp_data_close(data);
    golden_close(file);
}

static void batches_are_what_python_wrote(void **state)
{
    static const char *const folders[] = {
        GOLDEN "/two",  GOLDEN "/names", GOLDEN "/tsv",
        GOLDEN "/json", GOLDEN "/flat",
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(folders); i++) {
        struct vp_data_config config = config_of(folders[i]);

        check_gold(&config);
        config.split = VP_DATA_EVAL;
        check_gold(&config);
    }
}

static void resuming_repeats_batches(void **state)
{
    struct vp_data_config config = config_of(GOLDEN "/json/train.jsonl");

    (void)state;
    check_resuming(&config, 30, 7);
}

static void the_direction_is_not_guessed(void **state)
{
    struct vp_data_config config = config_of(GOLDEN "/two");
    struct vp_data *data;

    (void)state;
    config.source_lang = config.target_lang = NULL;
    assert_line(&config,
                "two: does not define the direction of the translation; "
                "set source_lang and target_lang");
    config.path = GOLDEN "/json";
    assert_line(&config, "train.jsonl: does not define the direction");
    /* Names like train.de-en.de define the direction, and so do columns. */
    config.path = GOLDEN "/names";
    check_gold(&config);
    config.path = GOLDEN "/tsv";
    check_gold(&config);
    config.source_lang = config.target_lang = "en";
    config.path = GOLDEN "/json/train.jsonl";
    assert_line(&config, "train.jsonl: source_lang and target_lang are both "
                         "'en'; set them to two languages");
    config.path = GOLDEN "/two";
    assert_line(&config, "two: source_lang and target_lang are both 'en'");
    config.source_lang = "en";
    config.target_lang = "fr";
    assert_line(&config, "train.en or train.fr is missing; change source_lang");
    config.target_lang = "de";
    data = open_data(&config);
    assert_string_equal(vp_data_notice(data, 0),
                        GOLDEN "/two: 2 pairs with an empty side are left out");
    vp_data_close(data);
}

static void other_text_stays_an_exercise(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct vp_data *data;

    (void)state;
    write_text("train.py", "two words\n");
    write_text("train.md", "more words here\n");
    for (int i = 0; i < 10; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%d.txt", i);
        write_text(name, "some more words\n");
    }
    data = open_data(&config);
    assert_non_null(strstr(vp_data_info(data)->what, "text: 12 files"));
    vp_data_close(data);
}

static void mistakes_are_explained(void **state)
{
    struct vp_data_config config = config_of(folder);

    (void)state;
    write_text("train.de", "a\nb\n");
    write_text("train.en", "a\nb\nc\n");
    assert_line(&config, "train.de: has 2 lines, but ");
    write_text("train.en", "\n\n");
    assert_line(&config, ": holds no pair; set data_dir to other files");
    assert_int_equal(mkfifo(at("pipe.tsv"), 0666), 0);
    config.path = at("pipe.tsv");
    assert_line(&config, "pipe.tsv: is not a regular file; set data_dir");
    write_text("x.tsv", "a\tb\n\nc\n");
    config.path = at("x.tsv");
    assert_line(&config, "x.tsv: offset 5 (line 3): does not hold two columns "
                         "with one tab between them; correct the line");
    write_text("x.tsv", "a\tb\tc\n");
    assert_line(&config, "x.tsv: offset 0 (line 1): does not hold");
    config.vocab = 200;
    assert_line(&config, "vocab is 200, but text needs 260 ids");
    config.vocab = 0;
    write_text("x.jsonl", "{\"de\": \"a\", \"en\": \"b\"}\n{\"de\": \"a\"}\n");
    config.path = at("x.jsonl");
    assert_line(&config, "x.jsonl: offset 23 (line 2): has no such key ('en'); "
                         "correct the line, or change source_lang");
    write_text("x.jsonl", "{\"de\": \"a\", \"en\": \"\\ud800\"}\n");
    assert_line(&config, "x.jsonl: offset 19 (line 1): is a NUL character or "
                         "half of a surrogate pair ('en')");
}

static void several_files_are_refused(void **state)
{
    struct vp_data_config config = config_of(folder);

    (void)state;
    write_text("a.tsv", "a\tb\n");
    write_text("b.tsv", "a\tb\n");
    assert_line(&config, ": a.tsv and b.tsv are both for training; set "
                         "data_dir to one file, or valid_split");
    assert_int_equal(unlink(at("b.tsv")), 0);
    assert_int_equal(rename(at("a.tsv"), at("dev.tsv")), 0);
    assert_line(&config, ": no file for training among those with pairs");
    write_file("train.de-en.de.idx", "TNTIDX\0\0\1", 9);
    assert_line(&config, ": holds indexed files of fairseq and parallel text; "
                         "set data_format to fairseq or parallel");
}

/* Removes one character of a line, or its end. Most results are no pairs; these
 * are refused with their place. */
static void damaged_lines_are_refused(void **state)
{
    static const char good[] = "{\"translation\": {\"de\": \"ein\", \"en\": "
                               "\"one\"}}";
    const size_t n = sizeof(good) - 1;
    struct vp_data_config config;
    char path[512], line[128];
    int n_refused = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s", at("x.jsonl"));
    config = config_of(path);
    for (size_t i = 0; i < 2 * n; i++) {
        size_t rest = i < n ? n - i - 1 : 0;
        struct vp_data *data = NULL;
        struct vp_err err = { .text = "" };

        memcpy(line, good, n);
        memmove(line + i % n, line + i % n + 1, rest);
        line[i % n + rest] = i % n + rest == 0 ? 'x' : '\0';
        line[i % n + rest + 1] = '\0';
        write_text("x.jsonl", line);
        if (vp_data_open(&config, &data, &err) == VP_OK) {
            vp_data_close(data);
            continue;
        }
        n_refused++;
        if (!strstr(err.text, "x.jsonl: offset "))
            fail_msg("'%s' gives '%s'", line, err.text);
    }
    assert_true(n_refused >= 70);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_what_python_wrote),
        cmocka_unit_test(resuming_repeats_batches),
        cmocka_unit_test(the_direction_is_not_guessed),
        TEST_IN_FOLDER(other_text_stays_an_exercise),
        TEST_IN_FOLDER(mistakes_are_explained),
        TEST_IN_FOLDER(several_files_are_refused),
        TEST_IN_FOLDER(damaged_lines_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
