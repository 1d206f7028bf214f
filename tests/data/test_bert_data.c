/* BERT shards made from text have the expected sentences, pairs and masks, do
 * not depend on the number of threads, and are read back. */
#include "data/bert/make.h"
#include "data/data.h"
#include "lib/datalib.h"
#include "text/tokenizer.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define TOKENIZER VP_SOURCE_DIR "/tests/golden/tokenizers/bert"

/* ---- Splitting into sentences ------------------------------------------- */

/* Compares the sentences, joined by '|'; '#' marks those after a blank line. */
static void assert_cut(enum vp_sentence_style style, const char *text,
                       const char *want)
{
    size_t at_byte = 0, begin, end, n = strlen(text);
    char found[1024] = "";
    bool blank;

    while (vp_sentence_next(text, n, style, &at_byte, &begin, &end, &blank)) {
        size_t used = strlen(found);

        snprintf(found + used, sizeof(found) - used, "%s%s%.*s",
                 used ? "|" : "", blank ? "#" : "", (int)(end - begin),
                 text + begin);
    }
    assert_string_equal(found, want);
}

static void sentences_are_cut(void **state)
{
    (void)state;
    assert_cut(VP_SENTENCES_LINES, "One. Two.\nthree\n\n four ",
               "One. Two.|three|#four");
    assert_cut(VP_SENTENCES_PARAGRAPHS, "One. Two!\nThree", "One.|Two!|Three");
    assert_cut(VP_SENTENCES_WRAPPED, "One goes\non. Two.\n\nThree",
               "One goes\non.|Two.|#Three");
    assert_cut(VP_SENTENCES_WRAPPED, "Dr. No of J. Smith. He said \"Hi.\" Yes?",
               "Dr. No of J. Smith.|He said \"Hi.\"|Yes?");
    assert_cut(VP_SENTENCES_WRAPPED, "Pi is 3.14, e.g. here. Next",
               "Pi is 3.14, e.g. here.|Next");
    assert_cut(VP_SENTENCES_WRAPPED, "\xE4\xB8\x80\xE3\x80\x82\xE4\xBA\x8C",
               "\xE4\xB8\x80\xE3\x80\x82|\xE4\xBA\x8C");
    assert_cut(VP_SENTENCES_WRAPPED, "\nA", "#A");
    assert_cut(VP_SENTENCES_WRAPPED, " \n\n", "");
}

/* The time is linear: runs of marks, quotes and spaces of 4 MB are split
 * fast. */
static void long_runs_are_cut_fast(void **state)
{
    static const char *const parts[] = { ".", "?\"", ". a", ".\n", "A." };
    enum { N = 4 << 20 };
    char *text = malloc(N);

    (void)state;
    assert_non_null(text);
    for (size_t k = 0; k < VP_COUNT_OF(parts); k++) {
        size_t at_byte = 0, begin, end, length = strlen(parts[k]);
        bool blank;

        for (size_t i = 0; i < N; i++)
            text[i] = parts[k][i % length];
        text[N - 1] = 'x';
        (void)vp_sentence_style_of(text, N);
        while (vp_sentence_next(text, N, VP_SENTENCES_WRAPPED, &at_byte, &begin,
                                &end, &blank))
            assert_true(end > begin);
    }
    free(text);
}

static void style_is_found(void **state)
{
    static const struct {
        const char *text;
        enum vp_sentence_style want;
    } cases[] = {
        { "the cat sat\non the mat\n", VP_SENTENCES_LINES },
        { "One is here.\nTwo is there.\n", VP_SENTENCES_LINES },
        { "One is. Two is. Three.\nFour is. Five is.\n",
          VP_SENTENCES_PARAGRAPHS },
        { "One is here. Two\ngoes on and\non. Three. Four\nends.\n",
          VP_SENTENCES_WRAPPED },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        assert_int_equal(
            vp_sentence_style_of(cases[i].text, strlen(cases[i].text)),
            cases[i].want);
}

/* ---- Masking ------------------------------------------------------------ */

static void number_of_scored_tokens_is_rounded(void **state)
{
    (void)state;
    assert_int_equal(vp_bert_n_scored(128, 0.15, 20), 19);
    assert_int_equal(vp_bert_n_scored(5, 0.15, 20), 1);
    assert_int_equal(vp_bert_n_scored(30, 0.15, 20), 4); /* 4.5, to even */
    assert_int_equal(vp_bert_n_scored(512, 0.15, 20), 20);
}

static void masks_have_their_shares(void **state)
{
    const struct vp_bert_ids ids = { 0, 1, 2, 3, 10000 };
    int64_t n_mask = 0, n_kept = 0, n = 0, at_position[20] = { 0 };

    (void)state;
    for (uint64_t sample = 0; sample < 20000; sample++) {
        struct vp_mask_key key = { 7, sample, 0 };
        int32_t tokens[20], positions[3], labels[3];

        for (int t = 0; t < 20; t++)
            tokens[t] = 100 + t;
        assert_int_equal(
            vp_bert_mask(&ids, &key, 8, 20, 3, tokens, positions, labels), 3);
        for (int k = 0; k < 3; k++) {
            int p = positions[k];

            assert_true(p > 0 && p != 7 && p < 19);
            assert_true(k == 0 || p > positions[k - 1]);
            assert_int_equal(labels[k], 100 + p);
            n_mask += tokens[p] == 3;
            n_kept += tokens[p] == labels[k];
            at_position[p]++;
            n++;
        }
    }
    assert_true(llabs(n_mask - n * 8 / 10) < n / 100);
    assert_true(llabs(n_kept - n / 10) < n / 100);
    for (int p = 1; p < 19; p++)
        assert_true(p == 7 || llabs(at_position[p] - n / 17) < n / 200);
}

/* ---- Writing shards ----------------------------------------------------- */

static struct vp_tokenizer *open_tokenizer(void)
{
    struct vp_tokenizer *tokenizer = NULL;
    struct vp_err err = { .text = "" };

    if (vp_tokenizer_open(TOKENIZER, &tokenizer, &err) != VP_OK)
        fail_msg("%s", err.text);
    return tokenizer;
}

/* Writes 40 documents of one to nine sentences with their numbers in them. */
static void write_documents(const char *name)
{
    FILE *file = fopen(at(name), "w");

    assert_non_null(file);
    for (int d = 0; d < 40; d++) {
        for (int s = 0; s <= d % 9; s++)
            fprintf(file, "document %d has a sentence %d of words.\n", d, s);
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

static struct vp_bert_config config_of(const struct vp_tokenizer *tokenizer,
                                       const char *const *paths,
                                       const char *name, int n_threads)
{
    return (struct vp_bert_config){
        .text = { .tokenizer = tokenizer,
                  .paths = paths,
                  .n_paths = 1,
                  .n_threads = n_threads },
        .options = { .seq = 32,
                     .max_pred = 5,
                     .mask_share = 0.15,
                     .short_share = 0.1,
                     .random_next = 0.5,
                     .seed = 1 },
        .dupe_factor = 2,
        .folder = folder,
        .name = name,
        .shard_samples = 60,
    };
}

static void assert_same_file(const char *a, const char *b)
{
    FILE *x = fopen(at(a), "rb"), *y = fopen(at(b), "rb");
    int c;

    assert_non_null(x);
    assert_non_null(y);
    do {
        c = getc(x);
        assert_int_equal(c, getc(y));
    } while (c != EOF);
    fclose(x);
    fclose(y);
}

static void bytes_do_not_depend_on_threads(void **state)
{
    struct vp_tokenizer *tokenizer = open_tokenizer();
    struct vp_bert_result one, four;
    struct vp_err err = { .text = "" };
    char path[300];
    const char *paths[] = { path };
    struct vp_bert_config config;

    (void)state;
    write_documents("in.txt");
    snprintf(path, sizeof(path), "%s", at("in.txt"));
    config = config_of(tokenizer, paths, "one", 1);
    config.options.valid_parts = VP_CORPUS_PARTS / 10;
    assert_int_equal(vp_bert_write(&config, &one, &err), VP_OK);
    config.name = "four";
    config.text.n_threads = 4;
    assert_int_equal(vp_bert_write(&config, &four, &err), VP_OK);
    assert_int_equal(one.text.n_documents, 40);
    assert_int_equal(one.text.n_sentences, 190);
    assert_int_equal(one.n_samples, four.n_samples);
    assert_true(one.n_train_shards > 1);
    assert_int_equal(one.n_valid_shards, 1);
    /* Four documents are held out, enough for random second parts in both
     * splits. */
    assert_true(one.n_random * 10 > one.n_samples * 4);
    for (int i = 0; i < one.n_train_shards; i++) {
        char names[2][64];

        snprintf(names[0], 64, "one_training_%06d.hdf5", i);
        snprintf(names[1], 64, "four_training_%06d.hdf5", i);
        assert_same_file(names[0], names[1]);
    }
    assert_same_file("one_test_000000.hdf5", "four_test_000000.hdf5");
    vp_tokenizer_free(tokenizer);
}

/* The source of HDF5 shards reads them and checks every row. */
static void shards_are_read(void **state)
{
    const struct vp_dims dims = { 4, 32, 0, 20 };
    struct vp_tokenizer *tokenizer = open_tokenizer();
    struct vp_bert_result result;
    struct vp_err err = { .text = "" };
    char path[300];
    const char *paths[] = { path };
    struct vp_bert_config config;
    struct vp_data_config data_config;
    struct vp_data *data;
    struct vp_batch *batch;

    (void)state;
    write_documents("in.txt");
    snprintf(path, sizeof(path), "%s", at("in.txt"));
    config = config_of(tokenizer, paths, "x", 2);
    assert_int_equal(vp_bert_write(&config, &result, &err), VP_OK);
    remove(path);
    assert_true(result.n_random * 10 > result.n_samples * 4);
    assert_true(result.n_random * 10 < result.n_samples * 9);
    data_config = (struct vp_data_config){ .source = VP_DATA_FILES,
                                           .task = VP_DATA_MASKED_LM,
                                           .path = folder,
                                           .vocab = vp_tokenizer_size(
                                               tokenizer),
                                           .mask_prob = 0.15f,
                                           .seed = 1,
                                           .dims = &dims,
                                           .n_dims = 1 };
    data = open_data(&data_config);
    batch = make_batch(data);
    /* Every tenth row is held out. */
    assert_int_equal(vp_data_info(data)->n_samples,
                     result.n_samples - result.n_samples / 10);
    for (uint64_t m = 0; m < (uint64_t)vp_data_info(data)->n_batches; m++)
        fill(data, m, batch);
    vp_batch_free(batch);
    vp_data_close(data);
    vp_tokenizer_free(tokenizer);
}

/* If a split has no other document, no second part is random. */
static void one_document_has_no_random_parts(void **state)
{
    struct vp_tokenizer *tokenizer = open_tokenizer();
    struct vp_bert_result result;
    struct vp_err err = { .text = "" };
    char path[300];
    const char *paths[] = { path };
    struct vp_bert_config config = config_of(tokenizer, paths, "x", 1);

    (void)state;
    write_text("in.txt", "One is here.\nTwo is here.\nThree.\n\nFour.\n");
    snprintf(path, sizeof(path), "%s", at("in.txt"));
    config.options.random_next = 1;
    assert_int_equal(vp_bert_write(&config, &result, &err), VP_OK);
    assert_int_equal(result.n_random, result.n_samples);
    config.name = "y";
    config.options.valid_parts = VP_CORPUS_PARTS / 2;
    assert_int_equal(vp_bert_write(&config, &result, &err), VP_OK);
    assert_true(result.n_samples > 0);
    assert_int_equal(result.n_random, 0);
    vp_tokenizer_free(tokenizer);
}

/* n_shards sets the number of shards and keeps the samples. */
static void shards_are_counted(void **state)
{
    struct vp_tokenizer *tokenizer = open_tokenizer();
    struct vp_bert_result by_size, by_number;
    struct vp_err err = { .text = "" };
    char path[300];
    const char *paths[] = { path };
    struct vp_bert_config config = config_of(tokenizer, paths, "x", 2);

    (void)state;
    write_documents("in.txt");
    snprintf(path, sizeof(path), "%s", at("in.txt"));
    assert_int_equal(vp_bert_write(&config, &by_size, &err), VP_OK);
    config.name = "y";
    config.n_shards = 3;
    assert_int_equal(vp_bert_write(&config, &by_number, &err), VP_OK);
    assert_int_equal(by_number.n_train_shards, 3);
    assert_int_equal(by_number.n_samples, by_size.n_samples);
    assert_int_equal(by_number.n_labels, by_size.n_labels);
    /* A number of shards that shards of equal size cannot give. */
    config.name = "w";
    config.n_shards = by_size.n_samples * 3 / 5;
    assert_int_equal(vp_bert_write(&config, &by_number, &err), VP_OK);
    assert_int_equal(by_number.n_train_shards, config.n_shards);
    assert_int_equal(by_number.n_samples, by_size.n_samples);
    config.name = "z";
    config.n_shards = 1000000;
    assert_int_not_equal(vp_bert_write(&config, &by_number, &err), VP_OK);
    assert_non_null(strstr(err.text, "do not fill 1000000 shards"));
    vp_tokenizer_free(tokenizer);
}

static int n_calls_left;

static bool stop_later(void *ctx, const struct vp_bert_progress *progress)
{
    (void)ctx;
    (void)progress;
    return n_calls_left-- > 0;
}

static int n_found;

static int count_one(const char *path, const struct stat *info, int type,
                     struct FTW *ftw)
{
    (void)path;
    (void)info;
    (void)type;
    (void)ftw;
    n_found++;
    return 0;
}

/* Returns the number of files and folders in the test's folder, including
 * itself and hidden ones. */
static int count_files(void)
{
    n_found = 0;
    assert_int_equal(nftw(folder, count_one, 8, FTW_PHYS), 0);
    return n_found;
}

static void nothing_partial_is_left(void **state)
{
    struct vp_tokenizer *tokenizer = open_tokenizer();
    char path[300];
    const char *paths[] = { path };

    (void)state;
    write_documents("in.txt");
    snprintf(path, sizeof(path), "%s", at("in.txt"));
    for (int k = 0; k < 3; k++) {
        struct vp_bert_config config = config_of(tokenizer, paths, "x", 2);
        struct vp_err err = { .text = "" };
        struct vp_bert_result result;

        n_calls_left = k;
        config.progress = stop_later;
        assert_int_equal(vp_bert_write(&config, &result, &err),
                         VP_ERR_INTERRUPTED);
        assert_int_equal(count_files(), 2); /* the folder and the text */
    }
    vp_tokenizer_free(tokenizer);
}

static void refuse(const struct vp_bert_config *config, const char *want)
{
    struct vp_err err = { .text = "" };
    struct vp_bert_result result;

    assert_int_not_equal(vp_bert_write(config, &result, &err), VP_OK);
    if (!strstr(err.text, want))
        fail_msg("\"%s\" is not in \"%s\"", want, err.text);
}

static void bad_input_is_refused(void **state)
{
    struct vp_tokenizer *tokenizer = open_tokenizer(), *gpt2 = NULL;
    char path[300];
    const char *paths[] = { path };
    struct vp_bert_config config = config_of(tokenizer, paths, "x", 1);

    (void)state;
    snprintf(path, sizeof(path), "%s", at("in.txt"));
    refuse(&config, "cannot be read");
    write_text("in.txt", "One document. Two sentences.\n");
    refuse(&config, "the text is one document");
    write_text("in.txt", " \n\n");
    refuse(&config, "no text");
    write_text("in.txt", "One.\n\nTwo \xFF.\n");
    refuse(&config, "line 3");
    assert_int_equal(count_files(), 2);
    write_text("in.txt", "One.\n\nTwo.\n");
    write_text("x_training_000000.hdf5", "");
    refuse(&config, "is there already");
    assert_int_equal(vp_tokenizer_open(VP_SOURCE_DIR
                                       "/tests/golden/tokenizers/gpt2",
                                       &gpt2, NULL),
                     VP_OK);
    config.text.tokenizer = gpt2;
    refuse(&config, "has no [PAD] token");
    vp_tokenizer_free(gpt2);
    vp_tokenizer_free(tokenizer);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_are_cut),
        cmocka_unit_test(long_runs_are_cut_fast),
        cmocka_unit_test(style_is_found),
        cmocka_unit_test(number_of_scored_tokens_is_rounded),
        cmocka_unit_test(masks_have_their_shares),
        TEST_IN_FOLDER(bytes_do_not_depend_on_threads),
        TEST_IN_FOLDER(shards_are_read),
        TEST_IN_FOLDER(one_document_has_no_random_parts),
        TEST_IN_FOLDER(shards_are_counted),
        TEST_IN_FOLDER(nothing_partial_is_left),
        TEST_IN_FOLDER(bad_input_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
