/* Counter-based random numbers match the known answers of Philox and pinned
 * values, their bits are balanced and their ranges exact; dropout probabilities
 * are quantised as documented. */
#include "base/halves.h"
#include "base/numa.h"
#include "base/rng.h"
#include "base/status.h"
#include "lib/signal_of_child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Known answers published with Random123 for philox4x32-10. */
static void test_philox_known_answers(void **state)
{
    static const struct {
        struct vp_rng4 counter;
        uint32_t k0, k1;
        uint32_t want[4];
    } cases[] = {
        { { { 0, 0, 0, 0 } },
          0,
          0,
          { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff } },
          0xffffffff,
          0xffffffff,
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 } },
          0xa4093822,
          0x299f31d0,
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_rng4 got = vp_philox(cases[i].counter, cases[i].k0,
                                       cases[i].k1);

        assert_memory_equal(got.v, cases[i].want, sizeof(got.v));
    }
}

/* The mapping of arguments to key and counter affects every stored run. It is
 * pinned here by values computed from the definition by another program. */
static void test_rng_is_pinned(void **state)
{
    static const struct {
        uint64_t seed;
        enum vp_rng_purpose purpose;
        uint32_t stream, c0, c1;
        uint64_t c23;
        uint32_t want[4];
    } cases[] = {
        { 1,
          VP_RNG_INIT,
          0,
          0,
          0,
          0,
          { 0x3995bf09, 0x7f77cb5e, 0xd6c25622, 0x5446138d } },
        { 0x0123456789abcdef,
          VP_RNG_DROPOUT,
          7,
          3,
          5,
          0xfedcba9876543210,
          { 0x6e74350e, 0x99c2316a, 0xb9c2004a, 0x2d8881e8 } },
        { UINT64_MAX,
          VP_RNG_MASKING,
          0xffffff,
          UINT32_MAX,
          UINT32_MAX,
          UINT64_MAX,
          { 0xece409bb, 0x5b443676, 0x1f087d06, 0x9d347151 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_rng4 got = vp_rng(cases[i].seed, cases[i].purpose,
                                    cases[i].stream, cases[i].c0, cases[i].c1,
                                    cases[i].c23);

        assert_memory_equal(got.v, cases[i].want, sizeof(got.v));
    }
}

/* Each of the 128 bits is set half of the time: within 5 sigma of n/2. */
static void test_rng_bits_are_balanced(void **state)
{
    enum { N = 1 << 16 };
    int ones[128] = { 0 };

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        struct vp_rng4 r = vp_rng(3, VP_RNG_TEST, 0, i, 0, 0);

        for (int bit = 0; bit < 128; bit++)
            ones[bit] += r.v[bit / 32] >> bit % 32 & 1;
    }
    for (int bit = 0; bit < 128; bit++)
        assert_in_range(ones[bit], N / 2 - 5 * 128, N / 2 + 5 * 128);
}

static void test_rng_below(void **state)
{
    static const uint32_t ns[] = { 1, 2, 3, 7, 100, 260, 30528, UINT32_MAX };
    int count[7] = { 0 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(ns); i++) {
        assert_int_equal(vp_rng_below(0, ns[i]), 0);
        assert_int_equal(vp_rng_below(UINT32_MAX, ns[i]), ns[i] - 1);
    }
    for (uint32_t i = 0; i < 70000; i++)
        count[vp_rng_below(vp_rng(5, VP_RNG_TEST, 1, i, 0, 0).v[0], 7)]++;
    for (int i = 0; i < 7; i++) /* sigma is 93 */
        assert_in_range(count[i], 10000 - 465, 10000 + 465);
}

static void test_rng_unit(void **state)
{
    double sum = 0;

    (void)state;
    assert_true(vp_rng_unit(0) > 0.0);
    assert_true(vp_rng_unit(0) < 1e-9);
    assert_true(vp_rng_unit(UINT32_MAX) < 1.0);
    assert_true(vp_rng_unit(UINT32_MAX) > 1.0 - 1e-9);
    assert_true(vp_rng_unit(0x80000000u) > 0.5);
    assert_true(vp_rng_unit(0x7fffffffu) < 0.5);
    for (uint32_t i = 0; i < 10000; i++)
        sum += vp_rng_unit(vp_rng(9, VP_RNG_TEST, 2, i, 0, 0).v[3]);
    assert_true(sum / 10000 > 0.5 - 0.0145); /* 5 sigma */
    assert_true(sum / 10000 < 0.5 + 0.0145);
}

static void test_rng_byte(void **state)
{
    struct vp_rng4 r = { { 0x03020100, 0x07060504, 0x0b0a0908, 0xff0e0d0c } };

    (void)state;
    for (int i = 0; i < 15; i++)
        assert_int_equal(vp_rng_byte(r, i), i);
    assert_int_equal(vp_rng_byte(r, 15), 0xff);
}

/* The quantised probability is within half a step of p, and the scale keeps the
 * expectation: keep probability times scale is one. */
static void test_dropout_quantisation(void **state)
{
    (void)state;
    assert_int_equal(vp_dropout_threshold(0.0f), 0);
    assert_int_equal(vp_dropout_threshold(0.1f), 26);
    assert_int_equal(vp_dropout_threshold(0.5f), 128);
    assert_true(vp_dropout_scale(0.0f) == 1.0f);
    assert_true(vp_dropout_scale(0.5f) == 2.0f);
    for (int i = 0; i <= 99; i++) {
        float p = (float)i / 100;
        double q = vp_dropout_threshold(p) / 256.0;

        assert_true(q - p <= 0.5 / 256 + 1e-6);
        assert_true(p - q <= 0.5 / 256 + 1e-6);
        assert_true(vp_dropout_scale(p) * (1.0 - q) > 1 - 1e-6);
        assert_true(vp_dropout_scale(p) * (1.0 - q) < 1 + 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_rng_is_pinned),
        cmocka_unit_test(test_rng_bits_are_balanced),
        cmocka_unit_test(test_rng_below),
        cmocka_unit_test(test_rng_unit),
        cmocka_unit_test(test_rng_byte),
        cmocka_unit_test(test_dropout_quantisation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
