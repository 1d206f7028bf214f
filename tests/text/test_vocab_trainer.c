/* Trained BPE vocabularies equal the files of Hugging Face's trainer (hashes
 * from tests/golden/make_tokenizers.py), and WordPiece ones a computation by
 * hand. */
#include "text/vocab_trainer.h"

#include "base/sha256.h"

#include "lib/toklib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const special[] = { "<|endoftext|>", "a" };

/* ---- BPE ---------------------------------------------------------------- */

static uint32_t take_u32(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

/* Trains on the strings of strings.bin, in their order or reversed. */
static void train_strings(const struct vp_vocab_options *options, bool reversed,
                          const char *folder)
{
    struct vp_vocab_trainer *trainer;
    struct vp_err err = { .text = "" };
    size_t n_bytes, at = 4;
    unsigned char *bytes = tok_read(TOKENIZERS "strings.bin", &n_bytes);
    uint32_t n = take_u32(bytes);
    size_t *starts = malloc(n * sizeof(*starts));

    assert_non_null(starts);
    for (uint32_t i = 0; i < n; i++) {
        starts[i] = at;
        at += 4 + take_u32(bytes + at);
    }
    assert_int_equal(vp_vocab_trainer_create(options, &trainer), VP_OK);
    for (uint32_t i = 0; i < n; i++) {
        size_t start = starts[reversed ? n - 1 - i : i];

        assert_int_equal(vp_vocab_trainer_add(trainer, bytes + start + 4,
                                              take_u32(bytes + start)),
                         VP_OK);
    }
    assert_int_equal(vp_vocab_trainer_run(trainer, &err), VP_OK);
    assert_int_equal(vp_vocab_trainer_write(trainer, folder, &err), VP_OK);
    vp_vocab_trainer_free(trainer);
    free(starts);
    free(bytes);
}

static void expect_sha256(const struct tok_folder *folder, const char *name,
                          const char *want)
{
    char path[128], hex[2 * VP_SHA256_BYTES + 1];
    unsigned char hash[VP_SHA256_BYTES], *bytes;
    struct vp_sha256 sha;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s", folder->path, name);
    bytes = tok_read(path, &n);
    vp_sha256_init(&sha);
    vp_sha256_update(&sha, bytes, n);
    vp_sha256_final(&sha, hash);
    for (int i = 0; i < VP_SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(hex, want);
    free(bytes);
}

static void test_bpe_same_as_hugging_face(void **state)
{
    FILE *list = fopen(TOKENIZERS "trained.hash", "r");
    struct tok_folder folder = tok_folder_make();
    char vocab[65], merges[65];
    int size, least, n = 0;

    (void)state;
    assert_non_null(list);
    while (fscanf(list, "%d %d %64s %64s", &size, &least, vocab, merges) == 4) {
        struct vp_vocab_options options = {
            .size = size, .min_count = least, .special = special, .n_special = 2
        };

        train_strings(&options, n % 2 == 1, folder.path);
        expect_sha256(&folder, "vocab.json", vocab);
        expect_sha256(&folder, "merges.txt", merges);
        n++;
    }
    assert_int_equal(n, 5);
    fclose(list);
    tok_folder_remove(&folder);
}

/* ---- WordPiece ---------------------------------------------------------- */

static const char text[] = "low low low lower lower Newest newest newest "
                           "w\xC3\xAD"
                           "dest, zzz\n";

static void train_text(const struct vp_vocab_options *options,
                       const char *folder)
{
    struct vp_vocab_trainer *trainer;
    struct vp_err err = { .text = "" };

    assert_int_equal(vp_vocab_trainer_create(options, &trainer), VP_OK);
    assert_int_equal(vp_vocab_trainer_add(trainer, text, sizeof(text) - 1),
                     VP_OK);
    if (vp_vocab_trainer_run(trainer, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(vp_vocab_trainer_write(trainer, folder, &err), VP_OK);
    vp_vocab_trainer_free(trainer);
}

static void test_wordpiece_by_hand(void **state)
{
    static const char *const unknown[] = { "[UNK]" };
    struct vp_vocab_options options = {
        .wordpiece = true, .size = 31, .special = unknown, .n_special = 1
    };
    struct tok_folder folder = tok_folder_make();
    char path[128];
    unsigned char *got;
    size_t n;

    (void)state;
    train_text(&options, folder.path);
    snprintf(path, sizeof(path), "%s/vocab.txt", folder.path);
    got = tok_read(path, &n);
    /* Merged pairs by count, then by ids: "l ##o" and "##w ##e" 5 times,
     * "##s ##t" 4, "n ##e", "lo ##w", "##we ##st" and "ne ##west" 3, the others
     * 2. */
    assert_string_equal((char *)got,
                        "[UNK]\n,\nd\ne\ni\nl\nn\no\nr\ns\nt\nw\nz\n"
                        "##d\n##e\n##i\n##o\n##r\n##s\n##t\n##w\n##z\n"
                        "lo\n##we\n##st\nne\nlow\n##west\nnewest\nlowe\n"
                        "lower\n");
    free(got);
    tok_folder_remove(&folder);
}

/* Trained files open as a tokenizer: first from tokenizer.json, then, without
 * it, from the vocabulary files. */
static void test_trained_files_open(void **state)
{
    static const char *const bert[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                        "[MASK]" };

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct vp_vocab_options options = { .wordpiece = kind > 0,
                                            .cased = kind > 1,
                                            .size = 300,
                                            .special = kind ? bert : special,
                                            .n_special = kind ? 5 : 2 };
        struct tok_folder folder = tok_folder_make();
        char path[128];

        train_text(&options, folder.path);
        for (int pass = 0; pass < 2; pass++) {
            struct vp_tokenizer *tokenizer = tok_open(folder.path);
            struct vp_encoder *encoder;
            struct vp_ids ids = { .n = 0 };
            struct vp_strbuf out = VP_STRBUF_INIT;
            struct vp_err err = { .text = "" };

            assert_int_equal(vp_encoder_create(tokenizer, &encoder), VP_OK);
            vp_encoder_add(encoder, "Newest low", 10, false, &ids);
            vp_tokenizer_decode(tokenizer, ids.at, ids.n, false, &out, &err);
            assert_string_equal(vp_strbuf_text(&out),
                                kind == 1 ? "newest low" : "Newest low");
            vp_strbuf_release(&out);
            vp_ids_release(&ids);
            vp_encoder_free(encoder);
            vp_tokenizer_free(tokenizer);
            snprintf(path, sizeof(path), "%s/tokenizer.json", folder.path);
            unlink(path);
        }
        tok_folder_remove(&folder);
    }
}

static void test_characters_are_limited(void **state)
{
    static const char *const unknown[] = { "[UNK]" };
    struct vp_vocab_options options = { .wordpiece = true,
                                        .size = 100,
                                        .max_characters = 3,
                                        .special = unknown,
                                        .n_special = 1 };
    struct tok_folder folder = tok_folder_make();
    char path[128];
    unsigned char *got;
    size_t n;

    (void)state;
    train_text(&options, folder.path);
    snprintf(path, sizeof(path), "%s/vocab.txt", folder.path);
    got = tok_read(path, &n);
    /* e and w occur 9 times, l and o 5 times; of equals the smaller character
     * stays. The words are "l ##w" 3 times, "l ##w ##e" 2, "##e ##w ##e" 3 and
     * "w ##e". */
    assert_string_equal((char *)got, "[UNK]\ne\nl\nw\n##e\n##w\n"
                                     "lw\n##ew\n##ewe\nlwe\nwe\n");
    free(got);
    tok_folder_remove(&folder);
}

static void test_too_small_a_size(void **state)
{
    struct vp_vocab_options options = { .size = 257,
                                        .special = special,
                                        .n_special = 2 };
    struct vp_vocab_trainer *trainer;
    struct vp_err err = { .text = "" };

    (void)state;
    /* The token "a" is also one of the 256 bytes: 257 tokens fit, 256 do
     * not. */
    assert_int_equal(vp_vocab_trainer_create(&options, &trainer), VP_OK);
    vp_vocab_trainer_add(trainer, text, sizeof(text) - 1);
    assert_int_equal(vp_vocab_trainer_run(trainer, &err), VP_OK);
    assert_int_equal(vp_vocab_trainer_result(trainer).n_tokens, 257);
    assert_int_equal(vp_vocab_trainer_result(trainer).n_merges, 0);
    vp_vocab_trainer_free(trainer);
    options.size = 256;
    assert_int_equal(vp_vocab_trainer_create(&options, &trainer), VP_OK);
    assert_int_equal(vp_vocab_trainer_run(trainer, &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "are 257 tokens, more than 256"));
    vp_vocab_trainer_free(trainer);
}

/* A failed write leaves no file behind. */
static void test_failed_writing(void **state)
{
    struct vp_vocab_options options = { .size = 300,
                                        .special = special,
                                        .n_special = 2 };
    struct tok_folder folder = tok_folder_make();
    struct vp_vocab_trainer *trainer;
    struct vp_err err = { .text = "" };
    char path[128];

    (void)state;
    assert_int_equal(vp_vocab_trainer_create(&options, &trainer), VP_OK);
    vp_vocab_trainer_add(trainer, text, sizeof(text) - 1);
    assert_int_equal(vp_vocab_trainer_run(trainer, &err), VP_OK);
    /* A folder has the name of the last temporary file. */
    snprintf(path, sizeof(path), "%s/tokenizer.json.tmp", folder.path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(vp_vocab_trainer_write(trainer, folder.path, &err),
                     VP_ERR_IO);
    assert_non_null(strstr(err.text, "tokenizer.json.tmp: cannot be written"));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder.path), 0);
    vp_vocab_trainer_free(trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_same_as_hugging_face),
        cmocka_unit_test(test_wordpiece_by_hand),
        cmocka_unit_test(test_trained_files_open),
        cmocka_unit_test(test_characters_are_limited),
        cmocka_unit_test(test_too_small_a_size),
        cmocka_unit_test(test_failed_writing),
    };

    return cmocka_run_group_tests_name("vocab_trainer", tests, NULL, NULL);
}
