/* The loss scale grows and shrinks as documented, within its limits, and
 * continues from a saved state. */
#include "lib/optim_bed.h"
#include "optim/optim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_scale_grows_and_shrinks(void **state)
{
    struct vp_scale scale = { .value = 1024.0f };

    (void)state;
    for (int i = 1; i < 2000; i++)
        vp_scale_note(&scale, true, true);
    assert_true(scale.value == 1024.0f && scale.in_a_row == 1999);
    vp_scale_note(&scale, true, true);
    assert_true(scale.value == 2048.0f && scale.in_a_row == 0);
    for (int i = 0; i < 1999; i++)
        vp_scale_note(&scale, true, true);
    vp_scale_note(&scale, true, false); /* the count starts again */
    assert_true(scale.value == 1024.0f && scale.in_a_row == -1);
    vp_scale_note(&scale, true, false);
    assert_true(scale.value == 512.0f && scale.in_a_row == -2);
    assert_int_equal(scale.n_skipped, 2);
    for (int i = 0; i < 1999; i++)
        vp_scale_note(&scale, true, true);
    assert_true(scale.value == 512.0f);
    vp_scale_note(&scale, true, true);
    assert_true(scale.value == 1024.0f);
}

static void test_scale_has_limits(void **state)
{
    struct vp_scale scale = { .value = 0x1p23f };

    (void)state;
    for (int i = 0; i < 3 * 2000; i++)
        vp_scale_note(&scale, true, true);
    assert_true(scale.value == 0x1p24f && scale.in_a_row == 0);
    for (int i = 0; i < 30; i++)
        vp_scale_note(&scale, true, false);
    assert_true(scale.value == 1.0f && scale.in_a_row == -30);
    assert_int_equal(scale.n_skipped, 30);
}

static void test_static_scale_stays(void **state)
{
    struct vp_scale scale = { .value = 3.0f }, none = { 0 };

    (void)state;
    assert_true(vp_scale_factor(&scale) == 3.0f);
    assert_true(vp_scale_factor(&none) == 1.0f);
    for (int i = 0; i < 5000; i++)
        vp_scale_note(&scale, false, true);
    assert_true(scale.value == 3.0f && scale.in_a_row == 5000);
    vp_scale_note(&scale, false, false);
    assert_true(scale.value == 3.0f && scale.in_a_row == -1);
    assert_int_equal(scale.n_skipped, 1);
}

static void test_scale_goes_on(void **state)
{
    const struct vp_scale then = { 512.0f, 7, 3 }, none = { 0.0f, 0, 3 };
    const struct vp_scale_config dynamic = { 65536.0f, true };
    const struct vp_scale_config fixed = { 8.0f, false };

    (void)state;
    assert_true(vp_scale_resume(&dynamic, &then).value == 512.0f);
    assert_int_equal(vp_scale_resume(&dynamic, &then).in_a_row, 7);
    assert_int_equal(vp_scale_resume(&dynamic, &then).n_skipped, 3);
    assert_true(vp_scale_resume(&fixed, &then).value == 8.0f);
    assert_true(vp_scale_resume(&dynamic, &none).value == 65536.0f);
    assert_int_equal(vp_scale_resume(&fixed, &none).n_skipped, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale_grows_and_shrinks),
        cmocka_unit_test(test_scale_has_limits),
        cmocka_unit_test(test_static_scale_stays),
        cmocka_unit_test(test_scale_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
