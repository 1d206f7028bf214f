/* BF16 and FP16 round to nearest even and expand without loss; a float that was
 * split into two 16-bit halves is joined again bit for bit. */
#include "base/dtype.h"
#include "base/halves.h"
#include "base/numa.h"
#include "base/status.h"
#include "lib/signal_of_child.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint16_t rounded(enum vp_dtype dtype, float x)
{
    uint16_t bits;

    vp_dtype_round(dtype, &bits, &x, 1);
    return bits;
}

static float expanded(enum vp_dtype dtype, uint16_t bits)
{
    float x;

    vp_dtype_expand(dtype, &x, &bits, 1);
    return x;
}

/* Every two-byte number survives expanding and rounding. The middle between two
 * neighbours rounds to the one with an even last bit, and the next float on
 * either side of the middle rounds to the nearer neighbour. */
static void two_byte_numbers(void **state)
{
    static const enum vp_dtype types[] = { VP_DTYPE_BF16, VP_DTYPE_F16 };

    (void)state;
    for (size_t t = 0; t < VP_COUNT_OF(types); t++)
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            float x = expanded(types[t], (uint16_t)bits);
            float next = expanded(types[t], (uint16_t)(bits + 1));
            float middle = 0.5f * x + 0.5f * next;
            uint16_t even = (uint16_t)(bits + (bits & 1));

            if (isnan(x)) {
                assert_true(isnan(expanded(types[t], rounded(types[t], x))));
                continue;
            }
            assert_int_equal(rounded(types[t], x), bits);
            if (!isfinite(x) || !isfinite(next) || x == 0.0f || next == 0.0f)
                continue;
            assert_int_equal(rounded(types[t], middle), even);
            vp_dtype_shorten(types[t], &middle, 1);
            assert_true(middle == expanded(types[t], even));
            middle = 0.5f * x + 0.5f * next;
            assert_int_equal(rounded(types[t], nextafterf(middle, x)), bits);
            assert_int_equal(rounded(types[t], nextafterf(middle, next)),
                             (uint16_t)(bits + 1));
        }
}

static void known_two_byte_numbers(void **state)
{
    (void)state;
    assert_int_equal(rounded(VP_DTYPE_BF16, 1.0f), 0x3F80);
    assert_int_equal(rounded(VP_DTYPE_F16, 1.0f), 0x3C00);
    assert_int_equal(rounded(VP_DTYPE_F16, -2.0f), 0xC000);
    assert_int_equal(rounded(VP_DTYPE_F16, 65504.0f), 0x7BFF);
    assert_int_equal(rounded(VP_DTYPE_F16, 65519.0f), 0x7BFF);
    assert_int_equal(rounded(VP_DTYPE_F16, 65520.0f), 0x7C00);
    assert_int_equal(rounded(VP_DTYPE_F16, 0x1p-24f), 0x0001);
    assert_int_equal(rounded(VP_DTYPE_F16, 0x1p-25f), 0x0000);
    assert_int_equal(rounded(VP_DTYPE_F16, 0x1.8p-25f), 0x0001);
    assert_int_equal(rounded(VP_DTYPE_F16, -INFINITY), 0xFC00);
    assert_int_equal(rounded(VP_DTYPE_BF16, FLT_MAX), 0x7F80);
    assert_true(expanded(VP_DTYPE_F16, 0x0001) == 0x1p-24f);
    assert_int_equal(vp_dtype_bytes(VP_DTYPE_BF16), 2);
    assert_int_equal(vp_dtype_bytes(VP_DTYPE_I32), 4);
}

/* Splits and joins `n` floats whose upper 16 bits are `upper`. Each must come
 * back bit for bit, and its high half must be the nearest BF16; a tie goes away
 * from zero. */
static void check_halves(uint32_t upper, const uint16_t *lower, int n)
{
    static float x[0x10000], joined[0x10000];
    static uint16_t high[0x10000], low[0x10000], nearest[0x10000];
    int n_wrong = 0;

    for (int i = 0; i < n; i++) {
        uint32_t bits = upper << 16 | lower[i];

        memcpy(&x[i], &bits, sizeof(bits));
    }
    vp_halves_split_all(high, low, x, n);
    vp_halves_join_all(joined, high, low, n);
    vp_dtype_round(VP_DTYPE_BF16, nearest, x, n);
    for (int i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &joined[i], sizeof(bits));
        if (isnan(x[i]))
            n_wrong += !isnan(joined[i]) ||
                       !isnan(expanded(VP_DTYPE_BF16, high[i]));
        else if (low[i] == 0x8000)
            n_wrong += high[i] != upper + 1;
        else
            n_wrong += high[i] != nearest[i];
        n_wrong += !isnan(x[i]) && bits != (upper << 16 | lower[i]);
    }
    if (n_wrong > 0)
        fail_msg("%d of the floats 0x%04X....", n_wrong, upper);
}

static void floats_in_two_halves(void **state)
{
    static const uint16_t ends[] = { 0x7FFF, 0x8000, 0x8001, 0xFFFF };
    static uint16_t lower[0x10000];
    int step = getenv("VP_FULL") ? 1 : 251, n = 0;

    (void)state;
    for (int bits = 0; bits < 0x10000; bits += step)
        lower[n++] = (uint16_t)bits;
    for (size_t i = 0; step > 1 && i < VP_COUNT_OF(ends); i++)
        lower[n++] = ends[i];
    for (uint32_t upper = 0; upper < 0x10000; upper++)
        check_halves(upper, lower, n);
}

static void known_halves(void **state)
{
    static const struct {
        float x;
        uint16_t high, low;
    } cases[] = {
        { 0.0f, 0, 0 },
        { -0.0f, 0x8000, 0 },
        { 1.0f, 0x3F80, 0 },
        { 0x1.00fffep0f, 0x3F80, 0x7FFF },
        { 0x1.01p0f, 0x3F81, 0x8000 },  /* tie, even neighbour: up */
        { 0x1.03p0f, 0x3F82, 0x8000 },  /* tie, odd neighbour: up */
        { -0x1.01p0f, 0xBF81, 0x8000 }, /* tie: away from zero */
        { 0x1.fffffep0f, 0x4000, 0xFFFF },
        { 0x1p-149f, 0, 1 },
        { FLT_MAX, 0x7F80, 0xFFFF }, /* high half alone: inf */
        { -FLT_MAX, 0xFF80, 0xFFFF },
        { INFINITY, 0x7F80, 0 },
        { NAN, 0x7FC0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_halves halves = vp_halves_split(cases[i].x);

        assert_int_equal(halves.high, cases[i].high);
        assert_int_equal(halves.low, cases[i].low);
    }
    assert_true(vp_halves_join(0x7F80, 0xFFFF) == FLT_MAX);
    assert_true(vp_halves_join(0x3F81, 0x8000) == 0x1.01p0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_byte_numbers),
        cmocka_unit_test(known_two_byte_numbers),
        cmocka_unit_test(floats_in_two_halves),
        cmocka_unit_test(known_halves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
