/* Parallel text becomes a fairseq data folder with the expected dictionaries
 * and pairs, which the fairseq source reads back; damaged text is refused. */
#include "data/data.h"
#include "data/pairs/make.h"
#include "lib/datalib.h"
#include "text/encoder.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TOKENIZERS VP_SOURCE_DIR "/tests/golden/tokenizers/"

static struct vp_tokenizer *open_tokenizer(const char *path)
{
    struct vp_tokenizer *tokenizer = NULL;
    struct vp_err err = { .text = "" };

    if (vp_tokenizer_open(path, &tokenizer, &err) != VP_OK)
        fail_msg("%s", err.text);
    return tokenizer;
}

static char paths[2][300];

static struct vp_pairs_config config_of(const struct vp_tokenizer *tokenizer,
                                        const char *const *files, int n_files)
{
    return (struct vp_pairs_config){
        .text = { .paths = files, .n_paths = n_files, .lang = { "de", "en" } },
        .tokenizer = { tokenizer, tokenizer },
        .n_threads = 1,
        .folder = folder,
        .split = "train",
    };
}

/* Writes `n` pairs; pair 3 has an empty side. */
static void write_pairs(int n)
{
    FILE *de = fopen(at("train.de"), "w"), *en = fopen(at("train.en"), "w");

    assert_non_null(de);
    assert_non_null(en);
    for (int i = 0; i < n; i++) {
        if (i != 3)
            fprintf(de, "Der Satz %d ist hier.", i);
        fprintf(de, "\n");
        fprintf(en, "Sentence %d is here, and it is longer.\r\n", i);
    }
    fclose(de);
    fclose(en);
    snprintf(paths[0], sizeof(paths[0]), "%s/train.de", folder);
    snprintf(paths[1], sizeof(paths[1]), "%s/train.en", folder);
}

static void read_all(const char *name, unsigned char *out, size_t capacity,
                     size_t *n_out)
{
    FILE *file = fopen(at(name), "rb");

    assert_non_null(file);
    *n_out = fread(out, 1, capacity, file);
    assert_true(*n_out < capacity);
    fclose(file);
}

static const char *const both[] = { paths[0], paths[1] };

/* Compares the bytes of the files with ids encoded here; index.h describes
 * their layout. */
static void files_hold_the_ids(void **state)
{
    struct vp_tokenizer *tokenizer = open_tokenizer(TOKENIZERS "bert");
    struct vp_pairs_config config = config_of(tokenizer, both, 2);
    struct vp_err err = { .text = "" };
    struct vp_pairs_result result;
    struct vp_encoder *encoder;
    static unsigned char idx[4096], bin[4096];
    size_t n_idx, n_bin, at_id = 0;

    (void)state;
    write_pairs(6);
    if (vp_pairs_write(&config, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(result.n_pairs, 5);
    assert_int_equal(result.n_empty, 1);
    read_all("train.de-en.de.idx", idx, sizeof(idx), &n_idx);
    read_all("train.de-en.de.bin", bin, sizeof(bin), &n_bin);
    assert_int_equal(n_idx, 26 + 12 * 5);
    assert_memory_equal(idx, "MMIDIDX\0\0\1\0\0\0\0\0\0\0\x08\5\0\0\0\0\0\0\0",
                        26);
    assert_int_equal(vp_encoder_create(tokenizer, &encoder), VP_OK);
    for (int i = 0, k = 0; i < 6; i++) {
        struct vp_ids ids = { 0 };
        char text[64];
        int32_t size;
        int64_t pointer;

        if (i == 3)
            continue;
        snprintf(text, sizeof(text), "Der Satz %d ist hier.", i);
        assert_int_equal(
            vp_encoder_add(encoder, text, strlen(text), true, &ids), VP_OK);
        memcpy(&size, idx + 26 + 4 * k, 4);
        memcpy(&pointer, idx + 26 + 20 + 8 * k, 8);
        assert_int_equal(size, ids.n + 1);
        assert_int_equal(pointer, 2 * at_id);
        for (size_t t = 0; t <= ids.n; t++, at_id++) {
            uint16_t id;

            memcpy(&id, bin + 2 * at_id, 2);
            assert_int_equal(id, t < ids.n ? ids.at[t] + 4 : 2);
        }
        vp_ids_release(&ids);
        k++;
    }
    assert_int_equal(n_bin, 2 * at_id);
    vp_encoder_free(encoder);
    vp_tokenizer_free(tokenizer);
}

/* The fairseq source reads the folder, including its dictionaries. */
static void folder_is_read(void **state)
{
    const struct vp_dims dims = { 4, 40, 40, 0 };
    struct vp_tokenizer *tokenizer = open_tokenizer(TOKENIZERS "bert");
    struct vp_pairs_config config = config_of(tokenizer, both, 2);
    struct vp_err err = { .text = "" };
    struct vp_pairs_result result;
    struct vp_data_config data_config;
    struct vp_data *data;

    (void)state;
    write_pairs(100);
    config.valid_parts = VP_CORPUS_PARTS / 10;
    if (vp_pairs_write(&config, &result, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(result.n_valid_pairs, 9);
    remove(at("train.de"));
    remove(at("train.en"));
    data_config = (struct vp_data_config){ .source = VP_DATA_FILES,
                                           .task = VP_DATA_PAIRS,
                                           .path = folder,
                                           .vocab = result.vocab,
                                           .pad = 1,
                                           .seed = 1,
                                           .dims = &dims,
                                           .n_dims = 1 };
    data = open_data(&data_config);
    assert_int_equal(vp_data_info(data)->n_samples, 90);
    vp_data_close(data);
    data_config.split = VP_DATA_EVAL;
    data = open_data(&data_config);
    assert_int_equal(vp_data_info(data)->n_samples, 9);
    vp_data_close(data);
    vp_tokenizer_free(tokenizer);
}

static void assert_same_file(const char *a, const char *b)
{
    static unsigned char x[1 << 20], y[1 << 20];
    size_t n, m;

    read_all(a, x, sizeof(x), &n);
    read_all(b, y, sizeof(y), &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
}

/* Two files, a .tsv and a .jsonl give the same ids, with any number of
 * threads. */
static void kinds_of_text_agree(void **state)
{
    static const char *const kinds[] = { "a.tsv", "b.jsonl" };
    struct vp_tokenizer *bert = open_tokenizer(TOKENIZERS "bert"),
                        *gpt2 = open_tokenizer(TOKENIZERS "gpt2");
    struct vp_pairs_config config = config_of(bert, both, 2);
    struct vp_err err = { .text = "" };
    struct vp_pairs_result result;

    (void)state;
    write_pairs(3000);
    config.tokenizer[1] = gpt2;
    assert_int_equal(vp_pairs_write(&config, &result, &err), VP_OK);
    for (int k = 0; k < 2; k++) {
        const char *one[] = { paths[0] };
        FILE *file = fopen(at(kinds[k]), "w");
        char names[2][64];

        assert_non_null(file);
        for (int i = 0; i < 3000; i++) {
            char de[64];

            snprintf(de, sizeof(de), "Der Satz %d ist hier.", i);
            if (i == 3)
                de[0] = '\0';
            if (k == 0)
                fprintf(file, "%s\tSentence %d is here, and it is longer.\n",
                        de, i);
            else
                fprintf(file,
                        "{\"translation\": {\"en\": \"Sentence %d is "
                        "here\\u002c and it is longer.\", \"de\": \"%s\"}}\n",
                        i, de);
        }
        fclose(file);
        snprintf(paths[0], sizeof(paths[0]), "%s/%s", folder, kinds[k]);
        config.text.paths = one;
        config.text.n_paths = 1;
        config.n_threads = 3;
        config.split = k ? "json" : "tsv";
        assert_int_equal(vp_pairs_write(&config, &result, &err), VP_OK);
        for (int f = 0; f < 4; f++) {
            const char *const ends[] = { "de.idx", "de.bin", "en.idx",
                                         "en.bin" };

            snprintf(names[0], 64, "train.de-en.%s", ends[f]);
            snprintf(names[1], 64, "%s.de-en.%s", config.split, ends[f]);
            assert_same_file(names[0], names[1]);
        }
    }
    vp_tokenizer_free(bert);
    vp_tokenizer_free(gpt2);
}

static void refuse(const struct vp_pairs_config *config, const char *want)
{
    struct vp_err err = { .text = "" };
    struct vp_pairs_result result;

    assert_int_not_equal(vp_pairs_write(config, &result, &err), VP_OK);
    if (!strstr(err.text, want))
        fail_msg("\"%s\" is not in \"%s\"", want, err.text);
    assert_int_not_equal(access(at(".train.partial"), F_OK), 0);
}

static bool stop_now(void *ctx, const struct vp_corpus_progress *progress)
{
    (void)ctx;
    (void)progress;
    return false;
}

static void bad_text_is_refused(void **state)
{
    struct vp_tokenizer *bert = open_tokenizer(TOKENIZERS "bert"),
                        *gpt2 = open_tokenizer(TOKENIZERS "gpt2");
    struct vp_pairs_config config = config_of(bert, both, 2);
    struct vp_err err = { .text = "" };
    struct vp_pairs_result result;

    (void)state;
    write_pairs(5);
    config.progress = stop_now;
    refuse(&config, "stopped by a signal");
    config.progress = NULL;
    write_text("train.en", "one\ntwo\n");
    refuse(&config, "train.en: has no line 3, but");
    write_text("train.en", "one\ntwo\n3\n4\n5\n6\n");
    refuse(&config, "train.de: has no line 6, but");
    write_text("train.en", "one\ntw\xFFo\n");
    refuse(&config, "train.en: offset 6 (line 2): not UTF-8");
    write_text("train.de", "");
    write_text("train.en", "");
    refuse(&config, "no pair");
    write_pairs(5);
    assert_int_equal(vp_pairs_write(&config, &result, &err), VP_OK);
    refuse(&config, "is there already");
    config.split = "more";
    config.valid_parts = VP_CORPUS_PARTS / 2;
    write_text("valid.de-en.de.idx", "");
    refuse(&config, "valid.de-en.de.idx: is there already");
    remove(at("valid.de-en.de.idx"));
    config.valid_parts = 0;
    config.split = "valid";
    config.tokenizer[0] = gpt2;
    refuse(&config, "dict.de.txt: line 1: is not the dictionary");
    config.text.n_paths = 1;
    config.tokenizer[0] = bert;
    snprintf(paths[0], sizeof(paths[0]), "%s/x.tsv", folder);
    write_text("x.tsv", "a\tb\nc\n");
    refuse(&config, "x.tsv: offset 4 (line 2): does not hold two columns");
    snprintf(paths[0], sizeof(paths[0]), "%s/x.jsonl", folder);
    write_text("x.jsonl", "{\"de\": \"a\", \"en\": \"b\"}\n{\"de\": 1}\n");
    refuse(&config, "x.jsonl: offset ");
    vp_tokenizer_free(bert);
    vp_tokenizer_free(gpt2);
}

/* A wrong byte at each place and a cut at each length are refused with the
 * place. */
static void damaged_text_is_refused(void **state)
{
    static const char *const texts[][2] = {
        { "x.jsonl", "{\"translation\": {\"de\": \"Ein Satz.\", \"en\": \"A "
                     "sentence.\"}}" },
        { "x.tsv", "Ein Satz, der lang genug ist, und noch ein paar Worte\tA "
                   "sentence that is long enough" },
    };
    struct vp_tokenizer *bert = open_tokenizer(TOKENIZERS "bert");
    const char *one[] = { paths[0] };
    struct vp_pairs_config config = config_of(bert, one, 1);
    char bytes[256];

    (void)state;
    for (int k = 0; k < 2; k++) {
        size_t n = strlen(texts[k][1]);

        snprintf(paths[0], sizeof(paths[0]), "%s/%s", folder, texts[k][0]);
        for (size_t i = 0; i < n; i++) {
            char want[96];

            memcpy(bytes, texts[k][1], n);
            bytes[i] = (char)0xFF;
            write_file(texts[k][0], bytes, n);
            snprintf(want, sizeof(want), "%s: offset %zu (line 1): not UTF-8",
                     texts[k][0], i);
            refuse(&config, want);
            /* A cut line is no JSON, and columns need their tab. */
            write_file(texts[k][0], texts[k][1], i);
            if (i > 0 && (k == 0 || !memchr(texts[k][1], '\t', i)))
                refuse(&config, "(line 1)");
        }
    }
    vp_tokenizer_free(bert);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST_IN_FOLDER(files_hold_the_ids),
        TEST_IN_FOLDER(folder_is_read),
        TEST_IN_FOLDER(kinds_of_text_agree),
        TEST_IN_FOLDER(bad_text_is_refused),
        TEST_IN_FOLDER(damaged_text_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
