/* Opening, encoding, decoding and training report a failed allocation at every
 * place. ASan builds check that nothing leaks. */
#include "text/batch_encoder.h"
#include "text/vocab_trainer.h"

#include "lib/toklib.h"

#include <stdio.h>
#include <string.h>

static int n_left = -1; /* allocations that succeed; -1: all */

static bool is_refused(void)
{
    if (n_left < 0)
        return false;
    if (n_left == 0)
        return true;
    n_left--;
    return false;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
    return is_refused() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t n)
{
    return is_refused() ? NULL : __real_realloc(old, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return is_refused() ? NULL : __real_aligned_alloc(align, n);
}

/* ---- Using a tokenizer -------------------------------------------------- */

static const char text[] = "Some w\xC3\xB6rds, [MASK] \xE4\xBD\xA0 "
                           "<|endoftext|> e\xCC\x81 \x80 and a very very long "
                           "wooooooooooooooooooooooooooooooooooooooooooooooooo"
                           "ooooooooooooooooooooooooooooord";

static enum vp_status use(const struct vp_tokenizer *tokenizer)
{
    const struct vp_text_span span = { text, sizeof(text) - 1 };
    struct vp_strbuf out = VP_STRBUF_INIT;
    struct vp_batch_encoder *batch;
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_batch_encoder_create(tokenizer, 1, &batch);
    const uint32_t *ids;
    size_t n;

    if (st != VP_OK)
        return st;
    st = vp_batch_encoder_run(batch, &span, 1, false);
    if (st == VP_OK) {
        ids = vp_batch_encoder_ids(batch, 0, &n);
        st = vp_tokenizer_decode(tokenizer, ids, n, false, &out, &err);
    }
    vp_strbuf_release(&out);
    vp_batch_encoder_free(batch);
    return st;
}

static enum vp_status open_and_use(const char *path)
{
    struct vp_tokenizer *tokenizer;
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_tokenizer_open(path, &tokenizer, &err);

    if (st == VP_OK) {
        st = use(tokenizer);
        vp_tokenizer_free(tokenizer);
    } else {
        assert_non_null(strstr(err.text, "out of memory; "));
    }
    return st;
}

static void test_tokenizers(void **state)
{
    static const char *const names[] = { "bert", "gpt2", "qwen2", "roberta",
                                         "llama3" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        enum vp_status st = VP_ERR_NOMEM;
        char path[256];
        int n = 0;

        snprintf(path, sizeof(path), TOKENIZERS "%s", names[i]);
        for (; st == VP_ERR_NOMEM; n++) {
            n_left = n;
            st = open_and_use(path);
            n_left = -1;
        }
        assert_int_equal(st, VP_OK);
        assert_in_range(n, 20, 10000);
    }
}

/* ---- Training ----------------------------------------------------------- */

static enum vp_status train(bool wordpiece, const char *folder)
{
    static const char *const special[] = { "[UNK]" };
    struct vp_vocab_options options = { .wordpiece = wordpiece,
                                        .size = 300,
                                        .max_characters = 10,
                                        .special = special,
                                        .n_special = 1 };
    struct vp_vocab_trainer *trainer;
    struct vp_err err = { .text = "" };
    enum vp_status st = vp_vocab_trainer_create(&options, &trainer);

    if (st != VP_OK)
        return st;
    st = vp_vocab_trainer_add(trainer, text, sizeof(text) - 1);
    if (st == VP_OK)
        st = vp_vocab_trainer_run(trainer, &err);
    if (st == VP_OK)
        st = vp_vocab_trainer_write(trainer, folder, &err);
    vp_vocab_trainer_free(trainer);
    return st;
}

static void test_training(void **state)
{
    struct tok_folder folder = tok_folder_make();

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        enum vp_status st = VP_ERR_NOMEM;
        int n = 0;

        for (; st == VP_ERR_NOMEM; n++) {
            n_left = n;
            st = train(kind == 1, folder.path);
            n_left = -1;
        }
        assert_int_equal(st, VP_OK);
        assert_in_range(n, 50, 10000);
    }
    tok_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizers),
        cmocka_unit_test(test_training),
    };

    return cmocka_run_group_tests_name("tokenizer_memory", tests, NULL, NULL);
}
