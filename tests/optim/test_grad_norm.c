/* Sums of squares are added in a fixed order for any number of threads and any
 * order of blocks, and the clipping factor follows its formula. */
#include "base/halves.h"
#include "lib/optim_bed.h"
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check_sums(const struct bed *bed, const double *sums)
{
    for (int i = 0; i < bed->n_tensors; i++) {
        const float *g = bed->g + bed->tensors[i].offset;
        long double want = 0.0L;

        for (int64_t j = 0; j < bed->tensors[i].n; j++)
            want += (long double)g[j] * g[j];
        assert_true(fabsl(sums[i] - want) <= 1e-13L * want);
    }
}

/* Repeated, so that every thread of the pool gets some of this little work. */
static void test_sum_squares(void **state)
{
    double first[VP_COUNT_OF(odd_sizes)], sums[VP_COUNT_OF(odd_sizes)];
    struct bed bed;

    (void)state;
    bed_init(&bed, odd_sizes, VP_COUNT_OF(odd_sizes), PAD);
    bed_fill_grad(&bed, 1);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        struct vp_pool *pool;

        assert_int_equal(vp_pool_create(n_threads, NULL, NULL, &pool), VP_OK);
        for (int repeat = 0; repeat < 50; repeat++) {
            vp_optim_sum_squares_host(bed.tensors, bed.n_tensors, bed.g, sums,
                                      pool, bed.scratch);
            if (n_threads == 1)
                memcpy(first, sums, sizeof(first));
            assert_memory_equal(first, sums, sizeof(first));
        }
        vp_pool_free(pool);
    }
    check_sums(&bed, first);
    bed_release(&bed);
}

/* 1e16 + 1 is 1e16 in double, so the result depends on the order of
 * additions. */
static void test_norm_adds_block_by_block(void **state)
{
    static const struct vp_optim_tensor tensors[] = {
        { .block = 0 }, { .block = 1 }, { .block = 1 },
        { .block = 1 }, { .block = 1 },
    };
    /* The same blocks in another order. */
    static const struct vp_optim_tensor mixed[] = {
        { .block = 9 }, { .block = 4 }, { .block = 9 },
        { .block = 9 }, { .block = 9 },
    };
    static const double sums[] = { 1e16, 1.0, 1.0, 1.0, 1.0 };
    static const double mixed_sums[] = { 1.0, 1e16, 1.0, 1.0, 1.0 };

    (void)state;
    assert_true(sqrt(1e16 + 4.0) != 1e8);
    assert_true(vp_optim_norm(tensors, 5, sums) == sqrt(1e16 + 4.0));
    assert_true(vp_optim_norm(mixed, 5, mixed_sums) == sqrt(1e16 + 4.0));
    assert_true(vp_optim_norm(tensors, 1, sums) == 1e8);
    assert_true(vp_optim_norm(NULL, 0, NULL) == 0.0);
}

/* Blocks are added in the order of their numbers, not of the tensors. */
static void test_norm_adds_in_block_order(void **state)
{
    static const struct vp_optim_tensor tensors[] = {
        { .block = 2 },
        { .block = 0 },
        { .block = 1 },
    };
    static const double sums[] = { 1e16, 1.0, 1.0 };

    (void)state;
    assert_true(vp_optim_norm(tensors, 3, sums) == sqrt(2.0 + 1e16));
    assert_true(sqrt(2.0 + 1e16) != sqrt(1e16 + 1.0 + 1.0));
}

static void test_clip_scale(void **state)
{
    static const struct {
        double norm;
        float clip, want;
    } cases[] = {
        { 0.0, 1.0f, 1.0f },    { 0.5, 1.0f, 1.0f },      { 1.0, 1.0f, 1.0f },
        { 2.0, 1.0f, 0.5f },    { 8.0, 0.25f, 0.03125f }, { 2.0, 0.0f, 1.0f },
        { 1e30, 1.0f, 1e-30f }, { INFINITY, 1.0f, 1.0f }, { NAN, 1.0f, 1.0f },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        assert_true(vp_optim_clip_scale(cases[i].norm, cases[i].clip) ==
                    cases[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_norm_adds_block_by_block),
        cmocka_unit_test(test_norm_adds_in_block_order),
        cmocka_unit_test(test_clip_scale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
