/* Learning-rate curves have literal values and those of stored tables, and give
 * a valid rate at every step. */
#include "base/halves.h"
#include "lib/golden.h"
#include "lib/optim_bed.h"
#include "optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define GOLDEN VP_SOURCE_DIR "/tests/golden/optim"

static void test_lr_names(void **state)
{
    static const char *const names[VP_LR_POLICY_COUNT] = {
        "constant",          "step",         "polynomial",
        "exponential_decay", "inverse_sqrt", "cosine",
    };
    enum vp_lr_policy policy = VP_LR_COSINE;

    (void)state;
    assert_false(vp_lr_from_name("linear", &policy));
    assert_int_equal(policy, VP_LR_COSINE);
    for (int i = 0; i < VP_LR_POLICY_COUNT; i++) {
        assert_true(vp_lr_from_name(names[i], &policy));
        assert_int_equal(policy, i);
        assert_string_equal(vp_lr_name(policy), names[i]);
    }
}

/* The published BERT curve: base 0.05, 36320 steps, warm-up 0.2. */
static void test_lr_polynomial_literals(void **state)
{
    static const struct {
        int64_t t;
        double want;
    } cases[] = {
        { 1, 6.8832599118942734e-06 },
        { 3632, 0.025 },
        { 7263, 0.049993116740088106 },
        { 7264, 0.044721359549995794 },
        { 18160, 0.03535533905932738 },
        { 36319, 2.6235967510047876e-04 },
        { 36320, 0.0 },
        { 36321, 0.0 },
    };
    const struct vp_lr_config config = {
        VP_LR_POLYNOMIAL, 0.05f, 0.2f, 36320, 1000, 37
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        double got = vp_lr_at(&config, cases[i].t);

        if (fabs(got - cases[i].want) > 1e-6 * cases[i].want)
            fail_msg("t %d: %.9g instead of %.9g", (int)cases[i].t, got,
                     cases[i].want);
    }
}

/* Checks the curve stored under "lr<i>.<policy>.". Returns false if there is
 * none. */
static bool check_curve(const struct golden *gold, int i, int policy)
{
    struct vp_lr_config config = { .policy = (enum vp_lr_policy)policy };
    char prefix[64], key[96];
    const int32_t *steps, *sizes;
    const float *base, *rates;
    int64_t n;

    snprintf(prefix, sizeof(prefix), "lr%d.%s", i, vp_lr_name(config.policy));
    snprintf(key, sizeof(key), "%s.steps", prefix);
    if (!golden_find(gold, key))
        return false;
    steps = golden_i32(gold, key, NULL, &n);
    snprintf(key, sizeof(key), "%s.sizes", prefix);
    sizes = golden_i32(gold, key, NULL, NULL);
    snprintf(key, sizeof(key), "%s.base", prefix);
    base = golden_f32(gold, key, NULL, NULL);
    snprintf(key, sizeof(key), "%s.rates", prefix);
    rates = golden_f32(gold, key, NULL, NULL);

    config.base = base[0];
    config.warmup = base[1];
    config.total_steps = sizes[0];
    config.steps_per_epoch = sizes[1];
    config.epochs = sizes[2];
    for (int64_t j = 0; j < n; j++) {
        double got = vp_lr_at(&config, steps[j]);

        if (!(fabs(got - rates[j]) <= 1e-6 * rates[j] + 1e-12))
            fail_msg("%s, t %d: %.9g instead of %.9g", prefix, steps[j], got,
                     (double)rates[j]);
    }
    return true;
}

static void test_lr_tables(void **state)
{
    struct golden *gold = golden_open(GOLDEN);
    bool seen[VP_LR_POLICY_COUNT] = { false };

    (void)state;
    for (int i = 0; i < 100; i++)
        for (int policy = 0; policy < VP_LR_POLICY_COUNT; policy++)
            if (check_curve(gold, i, policy))
                seen[policy] = true;
    for (int policy = 0; policy < VP_LR_POLICY_COUNT; policy++)
        assert_true(seen[policy]);
    golden_close(gold);
}

/* With any configuration, a rate lies between 0 and the base rate, and stays
 * constant after the last step. */
static void check_lr_range(const struct vp_lr_config *config)
{
    static const int64_t steps[] = { 1,  2,   3,    9,         10,
                                     11, 100, 4001, 123456789, INT64_MAX };
    float last = vp_lr_at(config, config->total_steps);

    for (size_t i = 0; i < VP_COUNT_OF(steps); i++) {
        float lr = vp_lr_at(config, steps[i]);

        if (!(lr >= 0.0f && lr <= config->base))
            fail_msg("%s, total %d, warmup %g, t %g: %g",
                     vp_lr_name(config->policy), (int)config->total_steps,
                     (double)config->warmup, (double)steps[i], (double)lr);
        if (config->total_steps > 0 && steps[i] >= config->total_steps)
            assert_true(lr == last);
    }
}

static void test_lr_is_defined_everywhere(void **state)
{
    static const float warmups[] = { 0.0f, 0.2f, 1.0f };
    static const int64_t totals[] = { 0, 1, 10, 36320 };

    (void)state;
    for (int policy = 0; policy < VP_LR_POLICY_COUNT; policy++) {
        for (size_t i = 0; i < VP_COUNT_OF(warmups); i++) {
            for (size_t j = 0; j < VP_COUNT_OF(totals); j++) {
                struct vp_lr_config config = {
                    (enum vp_lr_policy)policy, 0.1f, warmups[i], totals[j], 0, 0
                };

                check_lr_range(&config);
                config.steps_per_epoch = 3;
                config.epochs = 2;
                check_lr_range(&config);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lr_names),
        cmocka_unit_test(test_lr_polynomial_literals),
        cmocka_unit_test(test_lr_tables),
        cmocka_unit_test(test_lr_is_defined_everywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
