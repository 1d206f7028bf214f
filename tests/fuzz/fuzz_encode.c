/* libFuzzer target: encodes any bytes with the tokenizers of tests/golden.
 * Encoding twice gives the same ids, with a cold and a warm cache; byte-level
 * BPE without a normalizer decodes to the same text. */
#include "token_folder.h"

#include "base/utf8.h"

#include "text/code_point.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const struct {
    const char *path;
    bool lossless;
} kinds[] = {
    { "tests/golden/tokenizers/bert", false },
    { "tests/golden/tokenizers/bert_odd", false },
    { "tests/golden/tokenizers/gpt2", true },
    { "tests/golden/tokenizers/llama3", true },
    { "tests/golden/tokenizers/qwen2", false },
    { "tests/golden/tokenizers/roberta", false },
};
enum {
    N_KINDS = sizeof(kinds) / sizeof(kinds[0]),
    MAX_BYTES = 2048, /* many short texts find more than few long ones */
};

static struct vp_tokenizer *tokenizers[N_KINDS];
static struct vp_encoder *encoders[N_KINDS]; /* caches stay */

static void expect_text(const struct vp_tokenizer *tokenizer,
                        const struct vp_ids *ids, const uint8_t *bytes,
                        size_t n)
{
    unsigned char *good = malloc(3 * n + 1);
    struct vp_strbuf out = VP_STRBUF_INIT;
    struct vp_err err = { .text = "" };
    size_t n_good;

    VP_BUG_ON(!good);
    n_good = vp_utf8_replace(VP_UTF8_ANY, bytes, n, good, NULL);
    VP_BUG_ON(vp_tokenizer_decode(tokenizer, ids->at, ids->n, false, &out,
                                  &err) != VP_OK);
    VP_BUG_ON(out.n_bytes != n_good ||
              memcmp(vp_strbuf_text(&out), good, n_good) != 0);
    vp_strbuf_release(&out);
    free(good);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct vp_err err = { .text = "" };

    if (n > MAX_BYTES)
        n = MAX_BYTES;
    for (int i = 0; i < N_KINDS; i++) {
        struct vp_ids first = { .n = 0 }, second = { .n = 0 };

        if (!tokenizers[i]) {
            VP_BUG_ON(vp_tokenizer_open(kinds[i].path, &tokenizers[i], &err) !=
                      VP_OK);
            VP_BUG_ON(vp_encoder_create(tokenizers[i], &encoders[i]) != VP_OK);
        }
        VP_BUG_ON(vp_encoder_add(encoders[i], bytes, n, false, &first) !=
                  VP_OK);
        VP_BUG_ON(vp_encoder_add(encoders[i], bytes, n, false, &second) !=
                  VP_OK);
        VP_BUG_ON(first.n != second.n);
        if (first.n > 0)
            VP_BUG_ON(
                memcmp(first.at, second.at, first.n * sizeof(*first.at)) != 0);
        if (kinds[i].lossless)
            expect_text(tokenizers[i], &first, bytes, n);
        vp_ids_release(&first);
        vp_ids_release(&second);
    }
    return 0;
}
