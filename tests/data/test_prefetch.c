/* Prefetching returns the same batches in the same order, and passes on errors
 * and time limits. */
#include "data/data.h"
#include "data/internal.h"
#include "lib/datalib.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* A source with one slow or broken sample; -1: none. */
static int64_t slow_sample, broken_sample, window_length;

static enum vp_status odd_open(const struct vp_data_config *config,
                               const struct vp_data_window *window,
                               struct vp_source *source, struct vp_err *err)
{
    (void)config;
    (void)err;
    window_length = window->length;
    source->n_samples = 40;
    source->vocab = 100;
    return VP_OK;
}

static void odd_close(struct vp_source *source)
{
    (void)source;
}

static enum vp_status odd_window(const struct vp_source *source, int64_t i,
                                 int32_t *ids_out, struct vp_err *err)
{
    (void)source;
    if (i == slow_sample)
        nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
    if (i == broken_sample)
        return vp_err_set(err, VP_ERR_IO, "sample %lld: torn page",
                          (long long)i);
    for (int64_t t = 0; t < window_length; t++)
        ids_out[t] = VP_TOKEN_FIRST + (int32_t)i;
    return VP_OK;
}

static const struct vp_source_ops odd_source = {
    .name = "odd",
    .open = odd_open,
    .close = odd_close,
    .window = odd_window,
};

static const struct vp_dims odd_dims = { 4, 8, 0, 0 };
static const struct vp_data_config odd_config = {
    .task = VP_DATA_CAUSAL_LM,
    .dims = &odd_dims,
    .n_dims = 1,
    .seed = 4,
};

static struct vp_data *open_odd(void)
{
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };

    slow_sample = broken_sample = -1;
    assert_int_equal(vp_data_open_source(&odd_config, &odd_source, &data, &err),
                     VP_OK);
    return data;
}

static void prefetching_changes_nothing(void **state)
{
    static const struct vp_dims dims[] = { { 16, 32, 0, 80 },
                                           { 16, 32, 0, 512 } };
    static const int depths[] = { 0, 1, 2, 4 };
    struct vp_data_config config = {
        .source = VP_DATA_SYNTHETIC,
        .task = VP_DATA_MASKED_LM,
        .seed = 11,
        .mask_prob = 0.15f,
        .dims = dims,
        .n_dims = 2,
    };
    struct vp_data *data = open_data(&config);
    struct vp_batch *want = make_batch(data);

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(depths); k++) {
        /* Batches 1, 4 and 7 of every 8, across the end of an epoch. */
        const struct vp_batch_order order = {
            (uint64_t)vp_data_info(data)->n_batches - 19, 8, 3, 3
        };
        struct vp_prefetch *prefetch = NULL;
        const struct vp_batch *got = NULL;
        struct vp_err err = { .text = "" };

        assert_int_equal(vp_prefetch_create(data, &order, depths[k], &prefetch),
                         VP_OK);
        for (uint64_t i = 0; i < 60; i++) {
            uint64_t m = order.first + i / 3 * 8 + i % 3 * 3;

            assert_int_equal(vp_prefetch_next(prefetch, 10000, &got, &err),
                             VP_OK);
            /* Gives the reader time: it must not overwrite a batch in use. */
            if (i % 8 == 0)
                nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
            fill(data, m, want);
            assert_same_batch(&config, got, want);
        }
        vp_prefetch_free(prefetch);
    }
    vp_batch_free(want);
    vp_data_close(data);
}

static void prefetch_ends_at_any_time(void **state)
{
    struct vp_data *data = open_odd();
    struct vp_prefetch *prefetch = NULL;
    const struct vp_batch *batch;
    struct vp_err err;

    (void)state;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(vp_prefetch_create(data, NULL, 1 + i % 4, &prefetch),
                         VP_OK);
        for (int k = 0; k < i % 7; k++)
            assert_int_equal(vp_prefetch_next(prefetch, 10000, &batch, &err),
                             VP_OK);
        vp_prefetch_free(prefetch);
    }
    vp_prefetch_free(NULL);
    assert_int_equal(vp_prefetch_create(data, NULL, -1, &prefetch),
                     VP_ERR_INVALID);
    vp_data_close(data);
}

/* Batches before the broken one arrive; then every call returns its message. */
static void prefetch_delivers_errors(void **state)
{
    struct vp_data *data = open_odd();
    struct vp_batch *direct = make_batch(data);
    struct vp_err err = { .text = "" };
    uint64_t n_good = 0;

    (void)state;
    broken_sample = 17;
    while (vp_data_fill(data, n_good, direct, &err) == VP_OK)
        n_good++;
    assert_in_range(n_good, 1, 8);
    for (int depth = 0; depth <= 4; depth += 2) {
        struct vp_prefetch *prefetch = NULL;
        const struct vp_batch *batch = NULL;

        assert_int_equal(vp_prefetch_create(data, NULL, depth, &prefetch),
                         VP_OK);
        for (uint64_t m = 0; m < n_good; m++) {
            assert_int_equal(vp_prefetch_next(prefetch, 10000, &batch, &err),
                             VP_OK);
            assert_int_equal(batch->first_sample, 4 * m);
        }
        for (int again = 0; again < 2; again++) {
            char want[64];

            snprintf(want, sizeof(want), "batch %d: sample 17: torn page",
                     (int)n_good);
            err.text[0] = '\0';
            assert_int_equal(vp_prefetch_next(prefetch, 10000, &batch, &err),
                             VP_ERR_IO);
            assert_string_equal(err.text, want);
        }
        vp_prefetch_free(prefetch);
    }
    vp_batch_free(direct);
    vp_data_close(data);
}

static void prefetch_waits_have_a_limit(void **state)
{
    struct vp_data *data = open_odd();
    struct vp_prefetch *prefetch = NULL;
    const struct vp_batch *batch = NULL;
    struct vp_batch *direct = make_batch(data);
    struct vp_err err = { .text = "" };

    (void)state;
    fill(data, 0, direct);
    slow_sample = direct->array[VP_ROLE_TOKENS][0] - VP_TOKEN_FIRST;
    assert_int_equal(vp_prefetch_create(data, NULL, 2, &prefetch), VP_OK);
    assert_int_equal(vp_prefetch_next(prefetch, 10, &batch, &err),
                     VP_ERR_TIMEOUT);
    assert_non_null(strstr(err.text, "batch 0: not read within 10 ms"));
    assert_int_equal(vp_prefetch_next(prefetch, -999, &batch, &err),
                     VP_ERR_TIMEOUT);
    assert_null(batch);
    assert_int_equal(vp_prefetch_next(prefetch, 10000, &batch, &err), VP_OK);
    assert_same_batch(&odd_config, batch, direct);
    vp_prefetch_free(prefetch);
    vp_batch_free(direct);
    vp_data_close(data);
}

static void sources_without_pairs_are_refused(void **state)
{
    struct vp_data_config config = odd_config;
    struct vp_data *data = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    config.task = VP_DATA_PAIRS;
    config.dims = &(struct vp_dims){ 2, 16, 16, 0 };
    assert_int_equal(vp_data_open_source(&config, &odd_source, &data, &err),
                     VP_ERR_UNSUPPORTED);
    assert_string_equal(err.text, "data: no translation pairs in odd; choose "
                                  "another model_type or other data");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefetching_changes_nothing),
        cmocka_unit_test(prefetch_ends_at_any_time),
        cmocka_unit_test(prefetch_delivers_errors),
        cmocka_unit_test(prefetch_waits_have_a_limit),
        cmocka_unit_test(sources_without_pairs_are_refused),
    };

    return cmocka_run_group_tests_name("prefetch", tests, NULL, NULL);
}
