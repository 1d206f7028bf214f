/* Numbers that are added to sets of ranges in any order are each found exactly
 * once. A kernel gets such a set by value; a full set means another launch. */
#include "backend/cuda/optim/ranges.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 300 };

static uint32_t below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

/* Orders 0 .. n - 1 as ascending and descending runs in random order, like the
 * order in which tensors get their final gradients. */
static void shuffle(int *numbers, int n, uint32_t *state)
{
    int n_done = 0;
    bool taken[MOST] = { false };

    while (n_done < n) {
        int at = (int)below(state, (uint32_t)n),
            step = below(state, 2) ? 1 : -1;
        int length = 1 + (int)below(state, 9);

        for (; length > 0 && at >= 0 && at < n && !taken[at]; length--) {
            taken[at] = true;
            numbers[n_done++] = at;
            at += step;
        }
    }
}

static void count_seen(const struct vp_cuda_ranges *ranges, int *seen)
{
    for (int i = 0; i < vp_cuda_ranges_count(ranges); i++)
        seen[vp_cuda_ranges_get(ranges, i)]++;
}

static void each_number_is_found_once(void **state)
{
    uint32_t random = 1;

    (void)state;
    for (int round = 0; round < 500; round++) {
        int n = 1 + (int)below(&random, MOST), seen[MOST] = { 0 };
        struct vp_cuda_ranges ranges = { .n = 0 };
        int numbers[MOST];

        shuffle(numbers, n, &random);
        for (int i = 0; i < n; i++) {
            if (vp_cuda_ranges_add(&ranges, numbers[i]))
                continue;
            count_seen(&ranges, seen);
            ranges.n = 0;
            assert_true(vp_cuda_ranges_add(&ranges, numbers[i]));
        }
        count_seen(&ranges, seen);
        for (int i = 0; i < n; i++)
            assert_int_equal(seen[i], 1);
    }
}

static void neighbours_share_a_range(void **state)
{
    static const int numbers[] = { 7, 6, 5, 8, 9, 2, 3, 4, 1 };
    struct vp_cuda_ranges ranges = { .n = 0 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(numbers); i++)
        assert_true(vp_cuda_ranges_add(&ranges, numbers[i]));
    assert_int_equal(ranges.n, 2);
    assert_int_equal(ranges.at[0].begin, 5);
    assert_int_equal(ranges.at[0].end, 10);
    assert_int_equal(ranges.at[1].begin, 1);
    assert_int_equal(ranges.at[1].end, 5);
}

/* A tensor may have no chunks. */
static void empty_ranges_are_passed_over(void **state)
{
    struct vp_cuda_ranges ranges = {
        .n = 4, .at = { { 3, 3 }, { 8, 10 }, { 5, 5 }, { 0, 1 } }
    };

    (void)state;
    assert_int_equal(vp_cuda_ranges_count(&ranges), 3);
    assert_int_equal(vp_cuda_ranges_get(&ranges, 0), 8);
    assert_int_equal(vp_cuda_ranges_get(&ranges, 1), 9);
    assert_int_equal(vp_cuda_ranges_get(&ranges, 2), 0);
}

static void a_full_set_stays_as_it_is(void **state)
{
    struct vp_cuda_ranges ranges = { .n = 0 }, before;

    (void)state;
    for (int i = 0; i < VP_CUDA_RANGES; i++)
        assert_true(vp_cuda_ranges_add(&ranges, 10 * i));
    before = ranges;
    assert_false(vp_cuda_ranges_add(&ranges, 5));
    assert_memory_equal(&ranges, &before, sizeof(ranges));
    assert_true(vp_cuda_ranges_add(&ranges, 10 * VP_CUDA_RANGES - 9));
    assert_int_equal(vp_cuda_ranges_count(&ranges), VP_CUDA_RANGES + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_is_found_once),
        cmocka_unit_test(neighbours_share_a_range),
        cmocka_unit_test(empty_ranges_are_passed_over),
        cmocka_unit_test(a_full_set_stays_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
