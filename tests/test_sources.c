/* All sources of files: memory that runs out at any call is reported and leaks
 * nothing, and reading allocates nothing. */
#include "data/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "datalib.h"

#define GOLDEN VP_SOURCE_DIR "/tests/golden/"

/* ---- Wrapped at link time ----------------------------------------------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static atomic_int n_allocations;
static int failing; /* the n-th; 0: none */

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

/* ---- Sources ------------------------------------------------------------ */

static const struct vp_dims window = { 4, 12, 0, 0 };
static const struct vp_dims buckets[] = { { 32, 10, 10, 0 },
                                          { 16, 20, 20, 0 },
                                          { 8, 40, 40, 0 } };

static const struct {
    const char *path;
    enum vp_data_format format;
    bool pairs;
    int32_t pad;
} sources[] = {
    { GOLDEN "tokens/llmc", VP_FORMAT_AUTO, false, 0 },
    { GOLDEN "tokens/nanogpt", VP_FORMAT_NANOGPT, false, 0 },
    { GOLDEN "tokens/megatron", VP_FORMAT_AUTO, false, 0 },
    { GOLDEN "tokens/legacy", VP_FORMAT_AUTO, false, 0 },
    { GOLDEN "fairseq/mmap", VP_FORMAT_AUTO, true, 1 },
    { GOLDEN "chid", VP_FORMAT_AUTO, false, 0 },
    { GOLDEN "text/plain.txt", VP_FORMAT_AUTO, false, 0 },
    { GOLDEN "text/lines.jsonl", VP_FORMAT_AUTO, false, 0 },
    { GOLDEN "parallel/names", VP_FORMAT_AUTO, true, 0 },
    { GOLDEN "parallel/tsv", VP_FORMAT_AUTO, true, 0 },
    { GOLDEN "parallel/json", VP_FORMAT_AUTO, true, 0 },
};

static struct vp_data_config config_of(size_t i)
{
    bool pairs = sources[i].pairs;

    return (struct vp_data_config){
        .source = VP_DATA_FILES,
        .task = pairs ? VP_DATA_PAIRS : VP_DATA_CAUSAL_LM,
        .path = sources[i].path,
        .format = sources[i].format,
        .pad = sources[i].pad,
        .source_lang = "de",
        .target_lang = "en",
        .seed = 1,
        .dims = pairs ? buckets : &window,
        .n_dims = pairs ? 3 : 1,
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
            /* The system's own memory for a folder or a stream is read as an
             * error of the file. */
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(reading_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
