/* Invalid tokenizer files are refused with their path, the place and a remedy;
 * randomly damaged ones are refused or read without harm. */
#include "base/rng.h"

#include "lib/toklib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES(text) text, sizeof(text) - 1

/* ---- tokenizer.json ----------------------------------------------------- */

#define WORDPIECE                                                          \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":" \
    "{\"[UNK]\":0,\"a\":1}}"
#define BERT_CUT "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"
#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}"
#define MERGES ",\"merges\":[[\"a\",\"b\"]]}"
#define BYTE_CUT "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"

static const struct {
    const char *text, *message;
} bad_json[] = {
    { "", "not JSON" },
    { "[]", "is no object" },
    { "{\"model\":", "tokenizer.json:1:" },
    { "{}", "has no object 'model'" },
    { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}",
      "model: type 'Unigram' is not supported" },
    { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}",
      "model: type 'WordLevel'" },
    { "{\"model\":{}}", "model: type 'none'" },
    { "{\"model\":{\"type\":\"Two\\nlines\"}}", "type 'Two lines'" },
    { "{\"model\":{\"type\":\"BPE\"}}", "model.vocab: is no object" },
    { "{" WORDPIECE "}", "pre_tokenizer: is missing" },
    { "{" WORDPIECE ",\"pre_tokenizer\":{\"type\":\"Whitespace\"}}",
      "pre_tokenizer: type 'Whitespace' is not supported" },
    { "{" WORDPIECE ",\"pre_tokenizer\":{\"type\":\"Sequence\","
      "\"pretokenizers\":[{\"type\":\"BertPreTokenizer\"},{\"type\":"
      "\"Digits\"}]}}",
      "pre_tokenizer: type 'Digits'" },
    { "{" WORDPIECE "," BERT_CUT ",\"normalizer\":{\"type\":\"Lowercase\"}}",
      "normalizer: type 'Lowercase' is not supported" },
    { "{" WORDPIECE "," BERT_CUT ",\"normalizer\":{\"type\":\"Sequence\","
      "\"normalizers\":[{\"type\":\"NFD\"}]}}",
      "normalizer: type 'NFD'" },
    { "{" WORDPIECE "," BERT_CUT ",\"normalizer\":7}",
      "normalizer: is neither null nor an object" },
    { "{" WORDPIECE "," BERT_CUT ",\"decoder\":{\"type\":\"BPEDecoder\"}}",
      "decoder: type 'BPEDecoder'" },
    { "{" WORDPIECE "," BERT_CUT ",\"post_processor\":{\"type\":\"Odd\"}}",
      "post_processor: type 'Odd'" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}," BERT_CUT "}",
      "no token '[UNK]' for unknown words" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":-1}}," BERT_CUT "}",
      "token id -1 is not from 0" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":99999999}}," BERT_CUT
      "}",
      "token id 99999999" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0,\"b\":0}}," BERT_CUT
      "}",
      "two tokens have the id 0" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":\"0\"}}," BERT_CUT
      "}",
      "token 'a' has no whole number as id" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0},"
      "\"max_input_chars_per_word\":0}," BERT_CUT "}",
      "max_input_chars_per_word" },
    { "{" BPE MERGES "}", "pre_tokenizer: is missing" },
    { "{" BPE "}," BYTE_CUT "}", "model.merges: is no list" },
    { "{" BPE ",\"merges\":[\"a\"]}," BYTE_CUT "}",
      "model.merges[0]: is no pair" },
    { "{" BPE ",\"merges\":[\"a b\",\"a b c\"]}," BYTE_CUT "}",
      "model.merges[1]: is no pair" },
    { "{" BPE ",\"merges\":[[\"a\",\"c\"]]}," BYTE_CUT "}",
      "lacks the second token of merge 'a c'" },
    { "{" BPE ",\"merges\":[[\"c\",\"a\"]]}," BYTE_CUT "}",
      "lacks the first token" },
    { "{" BPE ",\"merges\":[[\"b\",\"a\"]]}," BYTE_CUT "}",
      "lacks the result" },
    { "{" BPE ",\"dropout\":0.1" MERGES "," BYTE_CUT "}", "model.dropout" },
    { "{" BPE ",\"byte_fallback\":true" MERGES "," BYTE_CUT "}",
      "model.byte_fallback" },
    { "{" BPE ",\"unk_token\":\"a\"" MERGES "," BYTE_CUT "}",
      "model.unk_token" },
    { "{" BPE ",\"end_of_word_suffix\":\"</w>\"" MERGES "," BYTE_CUT "}",
      "model.end_of_word_suffix: '</w>'" },
    { "{" BPE ",\"continuing_subword_prefix\":\"##\"" MERGES "," BYTE_CUT "}",
      "model.continuing_subword_prefix: '##'" },
    { "{" BPE MERGES ",\"normalizer\":{\"type\":\"NFKC\"}," BYTE_CUT "}",
      "normalizer: type 'NFKC'" },
    { "{" BPE MERGES ",\"pre_tokenizer\":{\"type\":\"Metaspace\"}}",
      "pre_tokenizer: type 'Metaspace'" },
    { "{" BPE MERGES ",\"pre_tokenizer\":{\"type\":\"ByteLevel\","
      "\"use_regex\":false}}",
      "use_regex false is not supported" },
    { "{" BPE MERGES ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
      "{\"Regex\":\"\\\\d+\"},\"behavior\":\"Isolated\"}}",
      "the pattern '\\d+' of Split is not supported" },
    { "{" BPE MERGES ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
      "{\"String\":\" \"},\"behavior\":\"Isolated\"}}",
      "the pattern '(not a Regex)'" },
    { "{" BPE MERGES ",\"decoder\":{\"type\":\"Metaspace\"}," BYTE_CUT "}",
      "decoder: type 'Metaspace'" },
    { "{" WORDPIECE "," BERT_CUT ",\"added_tokens\":[{\"content\":\"x\"}]}",
      "added_tokens[0]: has no whole number 'id'" },
    { "{" WORDPIECE "," BERT_CUT ",\"added_tokens\":[{\"id\":5}]}",
      "added_tokens[0]: has no text 'content'" },
    { "{" WORDPIECE "," BERT_CUT
      ",\"added_tokens\":[{\"id\":5,\"content\":\"a\"}]}",
      "token 'a' has the ids 1 and 5" },
    { "{" WORDPIECE "," BERT_CUT ",\"added_tokens\":[{\"id\":5,\"content\":"
      "\"x\",\"single_word\":true}]}",
      "single_word is not supported" },
    { "{" WORDPIECE "," BERT_CUT ",\"normalizer\":{\"type\":"
      "\"BertNormalizer\"},\"added_tokens\":[{\"id\":5,\"content\":\"x\","
      "\"normalized\":true}]}",
      "normalized is not supported" },
};

static void expect_refusal(const char *path, const char *message)
{
    struct vp_err err = { .text = "" };
    struct vp_tokenizer *tokenizer;

    if (vp_tokenizer_open(path, &tokenizer, &err) == VP_OK)
        fail_msg("was read, not refused for '%s'", message);
    if (!strstr(err.text, message) || !strstr(err.text, "; "))
        fail_msg("'%s' is not in '%s'", message, err.text);
    if (strncmp(err.text, path, strlen(path)) != 0)
        fail_msg("no path in '%s'", err.text);
    assert_null(strchr(err.text, '\n'));
}

static void test_bad_tokenizer_json(void **state)
{
    struct tok_folder folder = tok_folder_make();

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(bad_json); i++) {
        tok_folder_write(&folder, "tokenizer.json", bad_json[i].text,
                         strlen(bad_json[i].text));
        expect_refusal(folder.path, bad_json[i].message);
    }
    tok_folder_remove(&folder);
}

/* Writes a tokenizer with `n` added tokens of `n_bytes` bytes each. */
static void write_added(const struct tok_folder *folder, int n, int n_bytes)
{
    struct vp_strbuf text = VP_STRBUF_INIT;

    vp_strbuf_adds(&text, "{" WORDPIECE "," BERT_CUT ",\"added_tokens\":[");
    for (int i = 0; i < n; i++)
        vp_strbuf_addf(&text, "%s{\"id\":%d,\"content\":\"%0*d\"}",
                       i ? "," : "", 100 + i, n_bytes, i);
    vp_strbuf_adds(&text, "]}");
    assert_false(text.failed);
    tok_folder_write(folder, "tokenizer.json", text.at, text.n_bytes);
    vp_strbuf_release(&text);
}

/* The lengths are limited because the search for added tokens costs up to their
 * length at every byte of a text. */
static void test_long_added_tokens(void **state)
{
    struct tok_folder folder = tok_folder_make();
    struct vp_err err = { .text = "" };
    struct vp_tokenizer *tokenizer;

    (void)state;
    write_added(&folder, 3, 257);
    expect_refusal(folder.path, "tokenizer.json: added token '0000000000000000"
                                "00000000000000000000000000000000...' has 257 "
                                "bytes, more than 256");
    write_added(&folder, 3, 256);
    assert_int_equal(vp_tokenizer_open(folder.path, &tokenizer, &err), VP_OK);
    vp_tokenizer_free(tokenizer);
    write_added(&folder, 70000, 256);
    expect_refusal(folder.path, ": added tokens: the tokens have 17920001 "
                                "bytes, more than 16777216");
    tok_folder_remove(&folder);
}

/* ---- vocab.txt, vocab.json, merges.txt, tokenizer_config.json ----------- */

static const struct {
    const char *vocab_txt, *vocab_json, *merges, *config, *message;
} bad_folders[] = {
    { NULL, NULL, NULL, NULL, "has no tokenizer.json" },
    { "a\nb\n", NULL, NULL, NULL, "vocab.txt: the vocabulary has no token" },
    { "[UNK]\na\xFF\n", NULL, NULL, NULL, "vocab.txt: byte 7 is not UTF-8" },
    { "[UNK]\n", "{}", "", NULL, "two tokenizers" },
    { NULL, "{\"a\":0}", NULL, NULL, "vocab.json needs merges.txt" },
    { NULL, NULL, "a b\n", NULL, "merges.txt needs vocab.json" },
    { NULL, "{\"a\":0", "", NULL, "vocab.json:1:" },
    { NULL, "{\"a\":1.5}", "", NULL, "vocab.json: token 'a' has no whole" },
    { NULL, "{\"a\":0,\"b\":1}", "#version: 0.2\na b\n", NULL,
      "merges.txt:2: the vocabulary lacks the result" },
    { NULL, "{\"a\":0,\"b\":1}", "ab\n", NULL, "merges.txt:1: a merge is" },
    { NULL, "{\"a\":0,\"b\":1}", "a b c\n", NULL, "merges.txt:1: a merge is" },
    { NULL, "{\"a\":0,\"b\":1}", "\n", NULL, "merges.txt:1: a merge is" },
    { NULL, "{\"a\":0}", "\xC0\n", NULL, "merges.txt: byte 0 is not UTF-8" },
    { "[UNK]\n", NULL, NULL, "{\"do_lower_case\": 1}",
      "tokenizer_config.json: key 'do_lower_case' is neither" },
    { "[UNK]\n", NULL, NULL, "{\"added_tokens_decoder\": {\"x\": {}}}",
      "added_tokens_decoder: 'x' is no id" },
    { "[UNK]\n", NULL, NULL, "[]", "tokenizer_config.json: is no object" },
};

static void write_if(const struct tok_folder *folder, const char *name,
                     const char *text)
{
    if (text)
        tok_folder_write(folder, name, text, strlen(text));
}

static void test_bad_folders(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(bad_folders); i++) {
        struct tok_folder folder = tok_folder_make();

        write_if(&folder, "vocab.txt", bad_folders[i].vocab_txt);
        write_if(&folder, "vocab.json", bad_folders[i].vocab_json);
        write_if(&folder, "merges.txt", bad_folders[i].merges);
        write_if(&folder, "tokenizer_config.json", bad_folders[i].config);
        expect_refusal(folder.path, bad_folders[i].message);
        tok_folder_remove(&folder);
    }
}

/* A file whose name shows another format is refused without reading it. */
static void test_refused_by_name(void **state)
{
    static const char *const names[][2] = {
        { "tokenizer.model", "a SentencePiece model" },
        { "meta.pkl", "a Python pickle" },
        { "pytorch_model.bin", "a file of weights" },
        { "cl100k.tiktoken", "a tiktoken file" },
        { "vocab", "is not named like a tokenizer" },
    };
    struct tok_folder folder = tok_folder_make();

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        char path[128];

        tok_folder_write(&folder, names[i][0], BYTES("[UNK]\n"));
        snprintf(path, sizeof(path), "%s/%s", folder.path, names[i][0]);
        expect_refusal(path, names[i][1]);
        unlink(path);
    }
    expect_refusal("/dev/null", "is not named like a tokenizer");
    expect_refusal("/no/such/folder", "cannot be opened");
    tok_folder_remove(&folder);
}

/* ---- Random damage ------------------------------------------------------ */

/* Opens the folder and, if that succeeds, encodes and decodes a text. */
static void try_folder(const struct tok_folder *folder)
{
    static const char text[] = "A sample\xC3\xA9, \xE4\xBD\xA0 [MASK] 123\n";
    struct vp_err err = { .text = "" };
    struct vp_tokenizer *tokenizer;
    struct vp_strbuf out = VP_STRBUF_INIT;
    struct vp_ids ids = { .n = 0 };
    struct vp_encoder *encoder;

    if (vp_tokenizer_open(folder->path, &tokenizer, &err) != VP_OK) {
        assert_non_null(strstr(err.text, "; "));
        assert_null(strchr(err.text, '\n'));
        return;
    }
    assert_int_equal(vp_encoder_create(tokenizer, &encoder), VP_OK);
    assert_int_equal(vp_encoder_add(encoder, BYTES(text), false, &ids), VP_OK);
    assert_int_equal(
        vp_tokenizer_decode(tokenizer, ids.at, ids.n, false, &out, &err),
        VP_OK);
    vp_strbuf_release(&out);
    vp_ids_release(&ids);
    vp_encoder_free(encoder);
    vp_tokenizer_free(tokenizer);
}

static void damage(const char *from, const char *name, int n_times)
{
    struct tok_folder folder = tok_folder_make();
    char path[256];
    unsigned char *bytes, *copy;
    size_t n;

    snprintf(path, sizeof(path), TOKENIZERS "%s/%s", from, name);
    bytes = tok_read(path, &n);
    copy = malloc(n);
    assert_non_null(copy);
    for (int i = 0; i < n_times; i++) {
        struct vp_rng4 r = vp_rng(31, VP_RNG_TEST, (uint32_t)n, (uint32_t)i, 0,
                                  0);

        memcpy(copy, bytes, n);
        copy[r.v[0] % n] = (unsigned char)r.v[1];
        copy[r.v[2] % n] ^= (unsigned char)(1u << r.v[1] % 8);
        tok_folder_write(&folder, name, (char *)copy,
                         i % 4 == 0 ? r.v[3] % n : n);
        try_folder(&folder);
    }
    free(copy);
    free(bytes);
    tok_folder_remove(&folder);
}

static void test_random_damage(void **state)
{
    (void)state;
    damage("bert", "vocab.txt", 200);
    damage("bert_odd", "tokenizer.json", 100);
    damage("qwen2", "tokenizer.json", 100);
    damage("roberta", "tokenizer.json", 100);
}

/* Every tokenizer encodes random bytes twice, with a cold and a warm cache, to
 * the same ids. */
static void test_random_text(void **state)
{
    enum { N = 64 };
    static const char *const names[] = { "bert",    "bert_odd", "gpt2",
                                         "roberta", "llama3",   "qwen2" };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(names); k++) {
        char path[256];
        struct vp_tokenizer *tokenizer;

        snprintf(path, sizeof(path), TOKENIZERS "%s", names[k]);
        tokenizer = tok_open(path);
        for (uint32_t t = 0; t < 300; t++) {
            struct vp_ids first = { .n = 0 }, second = { .n = 0 };
            struct vp_encoder *encoder;
            unsigned char text[4 * N];

            for (uint32_t i = 0; i < N; i++) {
                struct vp_rng4 r = vp_rng(32, VP_RNG_TEST, t, i, 0, 0);

                for (int b = 0; b < 4; b++)
                    text[4 * i + (uint32_t)b] =
                        (unsigned char)(r.v[1] % 2 ? r.v[0] >> 8 * b
                                                   : r.v[0] >> 8 * b & 0x7F);
            }
            assert_int_equal(vp_encoder_create(tokenizer, &encoder), VP_OK);
            vp_encoder_add(encoder, text, sizeof(text), false, &first);
            vp_encoder_add(encoder, text, sizeof(text), false, &second);
            assert_int_equal(first.n, second.n);
            assert_memory_equal(first.at, second.at,
                                first.n * sizeof(*first.at));
            vp_ids_release(&first);
            vp_ids_release(&second);
            vp_encoder_free(encoder);
        }
        vp_tokenizer_free(tokenizer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_tokenizer_json),
        cmocka_unit_test(test_long_added_tokens),
        cmocka_unit_test(test_bad_folders),
        cmocka_unit_test(test_refused_by_name),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_random_text),
    };

    return cmocka_run_group_tests_name("tokenizer_files", tests, NULL, NULL);
}
