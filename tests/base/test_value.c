/* Text is parsed into integers, reals, booleans and byte counts at their exact
 * limits, floats print in the shortest form that parses back, and the name
 * nearest to a mistyped one is found. */
#include "base/nearest.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/value.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Parsing and printing of values ------------------------------------- */

static void test_whole_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t want;
    } good[] = {
        { "0", 0 },
        { "8", 8 },
        { "-8", -8 },
        { "+8", 8 },
        { "-0", 0 },
        { "9223372036854775807", INT64_MAX },
        { "-9223372036854775808", INT64_MIN },
    };
    static const char *const bad[] = {
        "",
        " 8",
        "8 ",
        "8.5",
        "8.",
        "1e3",
        "0x10",
        "08",
        "1_0",
        "--8",
        "+",
        "-",
        "8k",
        "x",
        "\xD9\xA3",
        "9223372036854775808",
        "-9223372036854775809",
        "100000000000000000000000000000000000000000",
    };
    int64_t value = 77;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(good); i++) {
        assert_true(vp_text_to_i64(good[i].text, &value));
        assert_true(value == good[i].want);
    }
    value = 77;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++)
        if (vp_text_to_i64(bad[i], &value))
            fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(value, 77);
}

static void test_real_numbers(void **state)
{
    static const struct {
        const char *text;
        double want;
    } good[] = {
        { "0", 0.0 },     { "0.1", 0.1 },     { ".5", 0.5 },
        { "1.", 1.0 },    { "5e-5", 5e-5 },   { "1E3", 1000.0 },
        { "-2.5", -2.5 }, { "+1e+2", 100.0 }, { "1e-400", 0.0 },
        { "007", 7.0 },
    };
    static const char *const bad[] = {
        "",    ".",     "e5",     "1e",  "1e+", "nan", ".nan",
        "inf", ".inf",  "0x1p3",  " 1",  "1 ",  "1,5", "1_0",
        "--1", "1e400", "-1e400", "yes", "1f",
    };
    double value = 77.0;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(good); i++) {
        assert_true(vp_text_to_real(good[i].text, &value));
        assert_true(value == good[i].want);
    }
    value = 77.0;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++)
        if (vp_text_to_real(bad[i], &value))
            fail_msg("'%s' was taken", bad[i]);
    assert_true(value == 77.0);
}

static void test_bools_and_bytes(void **state)
{
    static const char *const no_bytes[] = {
        "",      "G",  "11g",  "11GB", "11 G",   "-1",    "+1G",
        "1e400", "1P", "11Gi", "0x10", "9.1e15", "9000T", "11iB",
    };
    int64_t bytes;
    bool flag;

    (void)state;
    assert_true(vp_text_to_bool("true", &flag) && flag);
    assert_true(vp_text_to_bool("Yes", &flag) && flag);
    assert_true(vp_text_to_bool("ON", &flag) && flag);
    assert_true(vp_text_to_bool("False", &flag) && !flag);
    assert_true(vp_text_to_bool("off", &flag) && !flag);
    assert_false(vp_text_to_bool("1", &flag));
    assert_false(vp_text_to_bool("tRue", &flag));
    assert_false(vp_text_to_bool("", &flag));

    assert_true(vp_text_to_bytes("4096", &bytes) && bytes == 4096);
    assert_true(vp_text_to_bytes("3K", &bytes) && bytes == 3072);
    assert_true(vp_text_to_bytes("512M", &bytes) && bytes == 536870912);
    assert_true(vp_text_to_bytes("11G", &bytes) && bytes == 11811160064);
    assert_true(vp_text_to_bytes("11GiB", &bytes) && bytes == 11811160064);
    assert_true(vp_text_to_bytes("1.5G", &bytes) && bytes == 1610612736);
    assert_true(vp_text_to_bytes("2T", &bytes) && bytes == 2199023255552);
    for (size_t i = 0; i < VP_COUNT_OF(no_bytes); i++)
        if (vp_text_to_bytes(no_bytes[i], &bytes))
            fail_msg("'%s' was taken", no_bytes[i]);
}

static void test_floats_print_shortest(void **state)
{
    char text[32];

    (void)state;
    vp_float_to_text(0.1f, text, sizeof(text));
    assert_string_equal(text, "0.1");
    vp_float_to_text(0.0f, text, sizeof(text));
    assert_string_equal(text, "0");
    vp_float_to_text(1e-12f, text, sizeof(text));
    assert_string_equal(text, "1e-12");
    for (uint32_t i = 0; i < 2000; i++) {
        float value = (float)vp_rng_unit(
            vp_rng(1, VP_RNG_TEST, 0, i, 0, 0).v[0]);

        vp_float_to_text(value, text, sizeof(text));
        assert_true((float)strtod(text, NULL) == value);
    }
}

/* ---- The nearest name --------------------------------------------------- */

static void test_edit_distance(void **state)
{
    static const struct {
        const char *a, *b;
        int want;
    } cases[] = {
        { "", "", 0 },
        { "", "abc", 3 },
        { "abc", "abc", 0 },
        { "abc", "acb", 1 },
        { "abc", "abd", 1 },
        { "abc", "ab", 1 },
        { "kitten", "sitting", 3 },
        { "ca", "abc", 3 },
        { "ab", "ba", 1 },
        { "flaw", "lawn", 2 },
    };
    char longest[80];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        assert_int_equal(vp_edit_distance(cases[i].a, cases[i].b),
                         cases[i].want);
        assert_int_equal(vp_edit_distance(cases[i].b, cases[i].a),
                         cases[i].want);
    }
    memset(longest, 'x', sizeof(longest));
    longest[63] = 0;
    assert_int_equal(vp_edit_distance(longest, ""), 63);
    longest[63] = 'x';
    longest[64] = 0;
    assert_int_equal(vp_edit_distance(longest, ""), INT_MAX);
}

static void test_nearest(void **state)
{
    static const char *const names[] = { "macrobatch", "batch_size", "a_b_c",
                                         "hidden", "layers" };
    const int n = VP_COUNT_OF(names);

    (void)state;
    assert_int_equal(vp_nearest("batch", names, n), 1);
    assert_int_equal(vp_nearest("A-B-C", names, n), 2);
    assert_int_equal(vp_nearest("num_hidden_layers", names, n), 4);
    assert_int_equal(vp_nearest("num_hidden_things", names, n), 3);
    assert_int_equal(vp_nearest("ba", names, n), -1);
    assert_int_equal(vp_nearest("", names, n), -1);
    assert_int_equal(vp_nearest("batch", names, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_real_numbers),
        cmocka_unit_test(test_bools_and_bytes),
        cmocka_unit_test(test_floats_print_shortest),
        cmocka_unit_test(test_edit_distance),
        cmocka_unit_test(test_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
