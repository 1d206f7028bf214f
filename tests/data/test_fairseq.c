/* Sentence pairs of fairseq give the batches that tests/golden/make_fairseq.py
 * stored, in both directions of translation; runs resume at any batch, and
 * damaged files are refused. */
#include "data/languages.h"
#include "data/tokens/dict.h"
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

#define GOLDEN VP_SOURCE_DIR "/tests/golden/fairseq/"

enum { VOCAB = 60, N_BUCKETS = 4 };

static const struct vp_dims dims[N_BUCKETS] = {
    { 40, 4, 4, 0 },
    { 20, 8, 8, 0 },
    { 13, 12, 12, 0 },
    { 10, 16, 16, 0 },
};

static struct vp_data_config config_of(const char *path)
{
    return (struct vp_data_config){
        .source = VP_DATA_FILES,
        .task = VP_DATA_PAIRS,
        .path = path,
        .vocab = VOCAB,
        .pad = 1,
        .seed = 7,
        .dims = dims,
        .n_dims = N_BUCKETS,
    };
}

/* ---- Batches stored by Python ------------------------------------------- */

static const int32_t *find_array(struct golden *file, const char *split,
                                 const char *role, int64_t *n_out)
{
    char name[32];

    snprintf(name, sizeof(name), "%s.%s", split, role);
    return golden_i32(file, name, NULL, n_out);
}

static void check_gold(const char *path, int multiple, enum vp_data_split split)
{
    static const struct {
        const char *name;
        enum vp_role role;
    } roles[] = { { "tokens", VP_ROLE_TOKENS },
                  { "mask", VP_ROLE_MASK },
                  { "target", VP_ROLE_TARGET_TOKENS },
                  { "labels", VP_ROLE_LABELS } };
    const char *word = split == VP_DATA_EVAL ? "eval" : "train";
    struct vp_data_config config = config_of(path);
    struct golden *file;
    struct vp_data *data;
    struct vp_batch *batch;
    const int32_t *buckets, *rows;
    int64_t n, at = 0;
    uint64_t first_sample = 0;
    char name[512];

    config.split = split;
    config.batch_multiple = multiple == 16 ? 0 : multiple;
    snprintf(name, sizeof(name), GOLDEN "m%d", multiple);
    file = golden_open(name);
    buckets = find_array(file, word, "bucket", &n);
    rows = find_array(file, word, "rows", NULL);
    data = open_data(&config);
    batch = make_batch(data);
    assert_int_equal(2 * vp_data_info(data)->n_batches, n);
    for (int64_t m = 0; m < n; m++) {
        int64_t n_elements = vp_dims_role(&dims[buckets[m]], VP_ROLE_TOKENS);

        fill(data, (uint64_t)m, batch);
        assert_int_equal(batch->bucket, buckets[m]);
        assert_int_equal(batch->n_samples, rows[m]);
        assert_int_equal(batch->first_sample, first_sample);
        for (size_t r = 0; r < VP_COUNT_OF(roles); r++)
            assert_memory_equal(batch->array[roles[r].role],
                                find_array(file, word, roles[r].name, NULL) +
                                    at,
                                n_elements * 4);
        at += n_elements;
        first_sample += (uint64_t)rows[m];
    }
    vp_batch_free(batch);
    vp_data_close(data);
    golden_close(file);
}

static void batches_are_what_python_wrote(void **state)
{
    static const int multiples[] = { 16, 3 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(multiples); i++) {
        check_gold(GOLDEN "mmap", multiples[i], VP_DATA_TRAIN);
        check_gold(GOLDEN "mmap", multiples[i], VP_DATA_EVAL);
        check_gold(GOLDEN "legacy", multiples[i], VP_DATA_TRAIN);
    }
}

/* For each multiple, every pair occurs once per epoch, no batch is larger than
 * its bucket, and at most one batch per epoch is not a multiple. */
static void no_batch_exceeds_its_bucket(void **state)
{
    struct vp_data_config config = config_of(GOLDEN "mmap");

    (void)state;
    for (int64_t multiple = 1; multiple <= 40; multiple++) {
        struct vp_data *data;
        int64_t n_samples = 0, n_odd = 0;

        config.batch_multiple = multiple;
        data = open_data(&config);
        for (int64_t m = 0; m < vp_data_info(data)->n_batches; m++) {
            struct vp_batch *batch = make_batch(data);

            fill(data, (uint64_t)m, batch);
            assert_in_range(batch->n_samples, 1, dims[batch->bucket].batch);
            n_samples += batch->n_samples;
            n_odd += batch->n_samples > multiple &&
                     batch->n_samples % multiple != 0;
            vp_batch_free(batch);
        }
        assert_int_equal(n_samples, vp_data_info(data)->n_samples);
        assert_in_range(n_odd, 0, 1);
        vp_data_close(data);
    }
}

static void resuming_repeats_batches(void **state)
{
    struct vp_data_config config = config_of(GOLDEN "mmap");

    (void)state;
    check_resuming(&config, 90, 11);
}

/* ---- File names and languages ------------------------------------------- */

static void copy_golden(const char *from, const char *to)
{
    char path[512];
    unsigned char bytes[16384];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), GOLDEN "%s", from);
    file = fopen(path, "rb");
    assert_non_null(file);
    n = fread(bytes, 1, sizeof(bytes), file);
    assert_true(n < sizeof(bytes));
    fclose(file);
    write_file(to, bytes, n);
}

/* Copies the files of a split under another name. */
static void copy_split(const char *from, const char *to, const char *a,
                       const char *b)
{
    static const char *const endings[] = { "idx", "bin" };
    char source[128], target[128];

    for (int side = 0; side < 2; side++) {
        for (int e = 0; e < 2; e++) {
            snprintf(source, sizeof(source), "mmap/%s.de-en.%s.%s", from,
                     side ? "en" : "de", endings[e]);
            snprintf(target, sizeof(target), "%s.%s-%s.%s.%s", to, a, b,
                     side ? b : a, endings[e]);
            copy_golden(source, target);
        }
    }
}

static void languages_are_found(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct vp_data *data;

    (void)state;
    copy_split("train", "train", "de", "en");
    data = open_data(&config);
    assert_string_equal(vp_data_info(data)->what,
                        "fairseq: 211 sentence pairs, de to en, 26 of 190 "
                        "pairs left out as too long");
    vp_data_close(data);
    /* The other direction, from the same files. */
    config.source_lang = "en";
    assert_line(&config, ": no files <split>.<source>-<target>.<language>.idx "
                         "of these source_lang and target_lang; change these");
    config.target_lang = "de";
    data = open_data(&config);
    assert_non_null(strstr(vp_data_info(data)->what, "en to de"));
    vp_data_close(data);
    config.source_lang = config.target_lang = NULL;
    copy_split("train1", "train", "de", "fr");
    assert_line(&config, ": holds files of de-en and of de-fr; set source_lang "
                         "and target_lang");
    config.target_lang = "fr";
    data = open_data(&config);
    assert_non_null(strstr(vp_data_info(data)->what, "de to fr"));
    vp_data_close(data);
}

static void names_are_cut(void **state)
{
    (void)state;
    assert_true(vp_languages_is_name("train.de-en.de.idx", ".idx"));
    assert_true(vp_languages_is_name("a.b.zh_CN-en.en", ""));
    assert_false(vp_languages_is_name("train.de-en.fr.idx", ".idx"));
    assert_false(vp_languages_is_name("train.de-en.idx", ".idx"));
    assert_false(vp_languages_is_name("train.idx", ".idx"));
    assert_false(vp_languages_is_name(".idx", ".idx"));
    assert_false(vp_languages_is_name("de-en.de.idx", ".idx"));
    assert_false(vp_languages_is_name("x.-en.en.idx", ".idx"));
}

static void the_split_for_evaluation_is_found(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct vp_data *data;

    (void)state;
    copy_split("train", "train", "de", "en");
    copy_split("valid", "test", "de", "en");
    config.split = VP_DATA_EVAL;
    data = open_data(&config); /* every tenth pair of train */
    assert_non_null(strstr(vp_data_info(data)->what, "211 sentence pairs"));
    assert_int_equal(vp_data_info(data)->n_samples, 21 - 2);
    vp_data_close(data);
    config.valid_split = "held";
    assert_line(&config, ": no file held.de-en.de.idx; change valid_split");
    config.valid_split = "test";
    data = open_data(&config);
    assert_non_null(strstr(vp_data_info(data)->what, "40 sentence pairs"));
    vp_data_close(data);
}

/* ---- Refused settings and files ----------------------------------------- */

static void mistakes_are_explained(void **state)
{
    static const struct vp_dims window = { 4, 8, 0, 0 };
    struct vp_data_config config = config_of(GOLDEN "mmap");

    (void)state;
    config.pad = 0;
    assert_line(&config, "mmap: fairseq's dictionaries pad with id 1, but "
                         "pad_id is 0; set pad_id: 1");
    config.pad = 1;
    config.vocab = 59;
    assert_line(&config, "dict.de.txt: has 60 ids, special ones included, but "
                         "vocab is 59; set vocab to 60 or more");
    config.vocab = 60;
    config.task = VP_DATA_CAUSAL_LM;
    config.dims = &window;
    config.n_dims = 1;
    assert_line(&config, "train.de-en.de.idx: is by its name one language of "
                         "sentence pairs; set model_type to translation");
}

/* Rewrites ids of two bytes as four bytes, and sets the first id to `id`. */
static void widen(const char *stem, int64_t n, int32_t id)
{
    unsigned char index[16384];
    uint16_t narrow[8192];
    int32_t wide[8192];
    size_t n_index, n_ids;
    char name[64];
    FILE *file;

    snprintf(name, sizeof(name), "%s.idx", stem);
    file = fopen(at(name), "rb");
    n_index = fread(index, 1, sizeof(index), file);
    fclose(file);
    index[17] = 4; /* int32 */
    for (int64_t i = 0; i < n; i++) {
        int64_t pointer;

        memcpy(&pointer, index + 26 + 4 * n + 8 * i, sizeof(pointer));
        pointer *= 2;
        memcpy(index + 26 + 4 * n + 8 * i, &pointer, sizeof(pointer));
    }
    write_file(name, index, n_index);
    snprintf(name, sizeof(name), "%s.bin", stem);
    file = fopen(at(name), "rb");
    n_ids = fread(narrow, 2, VP_COUNT_OF(narrow), file);
    fclose(file);
    for (size_t i = 0; i < n_ids; i++)
        wide[i] = narrow[i];
    wide[0] = id;
    write_file(name, wide, n_ids * sizeof(*wide));
}

/* The sides may have ids of different widths; the larger vocabulary counts. */
static void both_sides_give_the_vocabulary(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct vp_data *data;

    (void)state;
    copy_split("train", "train", "de", "en");
    widen("train.de-en.en", 211, (1 << 24) - 1);
    config.vocab = 0;
    data = open_data(&config);
    assert_int_equal(vp_data_info(data)->vocab, 1 << 24);
    vp_data_close(data);
}

static void sides_must_match(void **state)
{
    struct vp_data_config config = config_of(folder);

    (void)state;
    copy_split("train", "train", "de", "en");
    copy_golden("mmap/train1.de-en.en.idx", "train.de-en.en.idx");
    assert_line(&config, "train.de-en.de.idx: has 211 sentences, but ");
    copy_split("train", "train", "de", "en");
    assert_int_equal(unlink(at("train.de-en.en.bin")), 0);
    assert_line(&config, "train.de-en.en.bin: cannot be read: No such file");
}

/* Changes two bytes of a file in place. */
static void change(const char *name, long offset, uint16_t value)
{
    FILE *file = fopen(at(name), "r+b");

    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(&value, 2, 1, file), 1);
    fclose(file);
}

/* Reads all batches. `err` has the line of the first error, or "". */
static void read_all(const struct vp_data_config *config, struct vp_err *err)
{
    struct vp_data *data = NULL;
    struct vp_batch *batch = NULL;
    enum vp_status st = vp_data_open(config, &data, err);
    int64_t n = st == VP_OK ? vp_data_info(data)->n_batches : 0;

    if (st == VP_OK)
        assert_int_equal(vp_batch_create(data, &batch), VP_OK);
    for (int64_t m = 0; st == VP_OK && m < n; m++)
        st = vp_data_fill(data, (uint64_t)m, batch, err);
    assert_int_equal(st == VP_OK, err->text[0] == '\0');
    vp_batch_free(batch);
    vp_data_close(data);
}

static void damaged_files_are_refused(void **state)
{
    struct vp_data_config config = config_of(folder);

    (void)state;
    for (int i = 0; i < 60; i++) {
        struct vp_err err = { .text = "" };

        copy_split("valid", "train", "de", "en");
        copy_split("valid", "valid", "de", "en");
        if (i < 20) /* <pad>, </s> in a sentence, or an id outside vocab */
            change("train.de-en.de.bin", 2 * i,
                   i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 300);
        else if (i < 40) /* sizes */
            change("train.de-en.en.idx", 26 + 4 * (i - 20), 900);
        else if (i < 58) /* pointers */
            change("train.de-en.de.idx", 26 + 4 * 40 + 8 * (i - 40), 999);
        else
            assert_int_equal(truncate(at(i == 58 ? "train.de-en.de.bin"
                                                 : "train.de-en.en.idx"),
                                      100),
                             0);
        read_all(&config, &err);
        if (!strstr(err.text, "/train.de-en.") || !strstr(err.text, "offset"))
            fail_msg("damage %d: '%s'", i, err.text);
    }
}

/* Moves the start of each sentence to that of the one before it, which changes
 * their lengths. */
static void shift_pointers(const char *name, int64_t n)
{
    FILE *file = fopen(at(name), "r+b");
    int64_t pointers[512];

    assert_non_null(file);
    assert_in_range(n, 2, VP_COUNT_OF(pointers));
    assert_int_equal(fseek(file, 26 + 4 * n, SEEK_SET), 0);
    assert_int_equal(fread(pointers, 8, (size_t)n, file), n);
    memmove(pointers + 1, pointers, (size_t)(n - 1) * sizeof(*pointers));
    assert_int_equal(fseek(file, 26 + 4 * n, SEEK_SET), 0);
    assert_int_equal(fwrite(pointers, 8, (size_t)n, file), n);
    fclose(file);
}

static void an_index_that_changes_overflows_no_row(void **state)
{
    struct vp_data_config config = config_of(folder);
    struct vp_err err = { .text = "" };
    struct vp_data *data;
    struct vp_batch *batch;
    enum vp_status st = VP_OK;

    (void)state;
    copy_split("train", "train", "de", "en");
    data = open_data(&config);
    batch = make_batch(data);
    shift_pointers("train.de-en.de.idx", 211);
    for (int64_t m = 0; st == VP_OK && m < vp_data_info(data)->n_batches; m++)
        st = vp_data_fill(data, (uint64_t)m, batch, &err);
    assert_int_equal(st, VP_ERR_INVALID);
    if (!strstr(err.text, "has another length than at the start of the run"))
        fail_msg("'%s'", err.text);
    vp_batch_free(batch);
    vp_data_close(data);
}

static void dictionaries_are_checked(void **state)
{
    static const struct {
        const char *text, *want;
        int64_t n_ids;
    } cases[] = {
        { "a 1\nb b 2\n\xC3\xA9 3\n", NULL, 7 },
        { "a 1\na 0 #fairseq:overwrite\n", NULL, 6 },
        { "a 1\r\nb 2", NULL, 6 },
        { "", NULL, 4 },
        { "a 1\nb\n", "line 2: is not a symbol, a space and a count", 0 },
        { "a 1\n 2\n", "line 2: is not a symbol", 0 },
        { "a 1\n\n", "line 2: is not a symbol", 0 },
        { "a 1\nb x2\n", "line 2: is not a symbol", 0 },
        { "b 1\na 2\nb 3\n", "line 3: 'b' is in line 1, too", 0 },
        { "a 1\n\xC3 2\n", "offset 4 (line 2): not UTF-8: C3", 0 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_err err = { .text = "" };
        int64_t n_ids = 0;
        enum vp_status st;

        write_text("dict.txt", cases[i].text);
        st = vp_dict_read(at("dict.txt"), &n_ids, &err);
        assert_int_equal(st == VP_OK, cases[i].want == NULL);
        assert_int_equal(n_ids, cases[i].n_ids);
        if (cases[i].want && !strstr(err.text, cases[i].want))
            fail_msg("'%s'", err.text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_what_python_wrote),
        cmocka_unit_test(no_batch_exceeds_its_bucket),
        cmocka_unit_test(resuming_repeats_batches),
        TEST_IN_FOLDER(languages_are_found),
        cmocka_unit_test(names_are_cut),
        TEST_IN_FOLDER(the_split_for_evaluation_is_found),
        cmocka_unit_test(mistakes_are_explained),
        TEST_IN_FOLDER(both_sides_give_the_vocabulary),
        TEST_IN_FOLDER(sides_must_match),
        TEST_IN_FOLDER(damaged_files_are_refused),
        TEST_IN_FOLDER(an_index_that_changes_overflows_no_row),
        TEST_IN_FOLDER(dictionaries_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
