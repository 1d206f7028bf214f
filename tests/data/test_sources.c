/* Every file source reports a failed allocation and leaks nothing, allocates
 * nothing while reading, and resumes with the next batch. */
#include "data/corpus/cache.h"
#include "data/data.h"
#include "lib/datalib.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/"

/* ---- Allocations that are counted and fail ------------------------------ */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static atomic_int n_allocations;
static int failing; /* number of the allocation that fails; 0: none */

static bool fails(void)
{
    return atomic_fetch_add(&n_allocations, 1) + 1 == failing;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

/* ---- Allocations of all sources ----------------------------------------- */

static const struct vp_dims window = { 4, 12, 0, 0 };
static const struct vp_dims buckets[] = { { 32, 10, 10, 0 },
                                          { 16, 20, 20, 0 },
                                          { 8, 40, 40, 0 } };

static const struct vp_dims masked[] = { { 4, 32, 0, 4 * 5 },
                                         { 4, 32, 0, 4 * 32 } };

static const struct {
    const char *path;
    enum vp_data_format format;
    enum vp_data_task task;
    int32_t pad;
} sources[] = {
    { GOLDEN "tokens/llmc", VP_FORMAT_AUTO, VP_DATA_CAUSAL_LM, 0 },
    { GOLDEN "tokens/nanogpt", VP_FORMAT_NANOGPT, VP_DATA_CAUSAL_LM, 0 },
    { GOLDEN "tokens/megatron", VP_FORMAT_AUTO, VP_DATA_CAUSAL_LM, 0 },
    { GOLDEN "tokens/legacy", VP_FORMAT_AUTO, VP_DATA_CAUSAL_LM, 0 },
    { GOLDEN "fairseq/mmap", VP_FORMAT_AUTO, VP_DATA_PAIRS, 1 },
    { GOLDEN "chid", VP_FORMAT_AUTO, VP_DATA_CAUSAL_LM, 0 },
    { GOLDEN "text/plain.txt", VP_FORMAT_AUTO, VP_DATA_CAUSAL_LM, 0 },
    { GOLDEN "text/lines.jsonl", VP_FORMAT_AUTO, VP_DATA_CAUSAL_LM, 0 },
    { GOLDEN "parallel/names", VP_FORMAT_AUTO, VP_DATA_PAIRS, 0 },
    { GOLDEN "parallel/tsv", VP_FORMAT_AUTO, VP_DATA_PAIRS, 0 },
    { GOLDEN "parallel/json", VP_FORMAT_AUTO, VP_DATA_PAIRS, 0 },
    { GOLDEN "text/plain.txt", VP_FORMAT_AUTO, VP_DATA_MASKED_LM, 0 },
    { GOLDEN "sentences", VP_FORMAT_AUTO, VP_DATA_MASKED_LM, 0 },
};

static struct vp_data_config config_of(size_t i)
{
    enum vp_data_task task = sources[i].task;

    return (struct vp_data_config){
        .source = VP_DATA_FILES,
        .task = task,
        .path = sources[i].path,
        .format = sources[i].format,
        .pad = sources[i].pad,
        .source_lang = "de",
        .target_lang = "en",
        .seed = 1,
        .mask_prob = 0.15f,
        .has_special = true,
        .cls_token = 1,
        .sep_token = 2,
        .mask_token = 3,
        .dims = task == VP_DATA_PAIRS       ? buckets
                : task == VP_DATA_MASKED_LM ? masked
                                            : &window,
        .n_dims = task == VP_DATA_PAIRS       ? 3
                  : task == VP_DATA_MASKED_LM ? 2
                                              : 1,
    };
}

static void memory_may_run_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sources); i++) {
        struct vp_data_config config = config_of(i);
        enum vp_status st = VP_ERR_NOMEM;
        struct vp_data *data = NULL;

        for (int k = 1; st != VP_OK && k < 1000; k++) {
            struct vp_err err = { .text = "" };

            atomic_store(&n_allocations, 0);
            failing = k;
            st = vp_data_open(&config, &data, &err);
            failing = 0;
            /* If libc cannot allocate for a folder or a stream, the error is
             * reported as one of the file. */
            if (st != VP_OK && st != VP_ERR_NOMEM && st != VP_ERR_IO)
                fail_msg("%s, allocation %d: %s", sources[i].path, k, err.text);
        }
        assert_int_equal(st, VP_OK);
        vp_data_close(data);
    }
}

static void reading_allocates_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sources); i++) {
        struct vp_data_config config = config_of(i);
        struct vp_data *data = open_data(&config);
        struct vp_batch *batch = make_batch(data);

        atomic_store(&n_allocations, 0);
        for (uint64_t m = 0; m < 50; m++)
            fill(data, m, batch);
        assert_int_equal(atomic_load(&n_allocations), 0);
        vp_batch_free(batch);
        vp_data_close(data);
    }
}

/* ---- Resuming ----------------------------------------------------------- */

static const struct vp_dims shards[] = { { 4, 128, 0, 4 * 128 } };

/* Sources that are not in the table above, or that are encoded by a
 * tokenizer. */
static const struct {
    const char *path, *tokenizer;
    enum vp_data_format format;
    enum vp_data_task task;
    const struct vp_dims *dims;
    int n_dims;
    int32_t pad;
} resumed[] = {
    { GOLDEN "tokens/fairseq", NULL, VP_FORMAT_AUTO, VP_DATA_CAUSAL_LM, &window,
      1, 0 },
    { GOLDEN "fairseq/legacy", NULL, VP_FORMAT_AUTO, VP_DATA_PAIRS, buckets, 3,
      1 },
    { GOLDEN "hdf5/nvidia", NULL, VP_FORMAT_AUTO, VP_DATA_MASKED_LM, shards, 1,
      0 },
    { "in.txt", "gpt2", VP_FORMAT_LLMC, VP_DATA_CAUSAL_LM, &window, 1, 0 },
    { "in.jsonl", "gpt2", VP_FORMAT_LLMC, VP_DATA_CAUSAL_LM, &window, 1, 0 },
    { "in.txt", "bert", VP_FORMAT_MEGATRON, VP_DATA_MASKED_LM, masked, 2, 0 },
    { "in.jsonl", "bert", VP_FORMAT_MEGATRON, VP_DATA_MASKED_LM, masked, 2, 0 },
};

static void write_texts(void)
{
    FILE *text = fopen(at("in.txt"), "w"), *lines = fopen(at("in.jsonl"), "w");

    assert_non_null(text);
    assert_non_null(lines);
    for (int i = 0; i < 300; i++) {
        fprintf(text, "Sentence %d. It has %d words!\n%s", i, i % 7,
                i % 5 ? "" : "\n");
        fprintf(lines, "{\"text\": \"Line %d\\nhas two lines. Or %d.\"}\n", i,
                i % 3);
    }
    fclose(text);
    fclose(lines);
}

/* Encodes a text to token files, as a training run does. */
static void encode(const char *name, const char *tokenizer_name, bool sentences,
                   struct vp_corpus_cached *out)
{
    struct vp_err err = { .text = "" };
    struct vp_tokenizer *tokenizer;
    char path[512];
    struct vp_corpus_cache_config config = { .data = at(name),
                                             .sentences = sentences,
                                             .n_threads = 2 };

    snprintf(path, sizeof(path), GOLDEN "tokenizers/%s", tokenizer_name);
    assert_int_equal(vp_tokenizer_open(path, &tokenizer, &err), VP_OK);
    config.tokenizer = tokenizer;
    if (vp_corpus_cache(&config, out, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_tokenizer_free(tokenizer);
}

static void resumed_runs_read_the_same(void **state)
{
    struct vp_corpus_cached cached;

    (void)state;
    write_texts();
    for (size_t i = 0; i < VP_COUNT_OF(sources); i++) {
        struct vp_data_config config = config_of(i);

        check_resuming(&config, 60, 7);
    }
    for (size_t i = 0; i < VP_COUNT_OF(resumed); i++) {
        bool is_masked = resumed[i].task == VP_DATA_MASKED_LM;
        struct vp_data_config config = {
            .source = VP_DATA_FILES,
            .task = resumed[i].task,
            .path = resumed[i].path,
            .format = resumed[i].format,
            .pad = resumed[i].pad,
            .seed = 3,
            .mask_prob = 0.15f,
            .has_special = is_masked,
            .cls_token = 1,
            .sep_token = 2,
            .mask_token = 3,
            .random_next = 0.5f,
            .dims = resumed[i].dims,
            .n_dims = resumed[i].n_dims,
        };

        if (resumed[i].tokenizer) {
            encode(resumed[i].path, resumed[i].tokenizer, is_masked, &cached);
            config.path = cached.folder;
        }
        check_resuming(&config, 120, 7);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(reading_allocates_nothing),
        TEST_IN_FOLDER(resumed_runs_read_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
