/* Each wrong configuration of config_cases.h is refused, and its whole message
 * is compared. */
#include "config/config.h"
#include "config/load.h"
#include "config_cases.h"
#include "lib/config_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check_refused(const struct refused *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct vp_config config;
        struct vp_err err;

        if (load_text(cases[i].yaml, cases[i].set, &config, &err) == VP_OK)
            fail_msg("taken:\n%s", cases[i].yaml);
        if (strcmp(err.text, cases[i].want) != 0)
            fail_msg("%s\n  got:  %s\n  want: %s", cases[i].yaml, err.text,
                     cases[i].want);
        vp_config_release(&config);
    }
}

static void test_refuses_yaml(void **state)
{
    (void)state;
    check_refused(not_yaml, VP_COUNT_OF(not_yaml));
}

static void test_refuses_keys(void **state)
{
    (void)state;
    check_refused(bad_keys, VP_COUNT_OF(bad_keys));
}

static void test_refuses_values(void **state)
{
    (void)state;
    check_refused(bad_values, VP_COUNT_OF(bad_values));
}

static void test_refuses_combinations(void **state)
{
    (void)state;
    write_text_file("gpt2.json", gpt2_json);
    check_refused(bad_together, VP_COUNT_OF(bad_together));
}

static void test_refuses_pipelines(void **state)
{
    (void)state;
    check_refused(bad_pipelines, VP_COUNT_OF(bad_pipelines));
}

static void test_refuses_files(void **state)
{
    struct vp_config config;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_config_load("no.yml", NULL, 0, &config, &err),
                     VP_ERR_IO);
    assert_string_equal(err.text, "no.yml: cannot be opened: No such file or "
                                  "directory; check the path");
    vp_config_release(&config);
    assert_int_equal(vp_config_load("sub", NULL, 0, &config, &err), VP_ERR_IO);
    assert_string_equal(err.text, "sub: cannot be read: Is a directory; give "
                                  "a YAML file");
    vp_config_release(&config);
    assert_int_equal(vp_config_load("a\nb", NULL, 0, &config, &err),
                     VP_ERR_INVALID);
    assert_null(strchr(err.text, '\n'));
    vp_config_release(&config);
    vp_config_release(&config); /* releasing twice is allowed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_yaml),
        cmocka_unit_test(test_refuses_keys),
        cmocka_unit_test(test_refuses_values),
        cmocka_unit_test(test_refuses_combinations),
        cmocka_unit_test(test_refuses_pipelines),
        cmocka_unit_test(test_refuses_files),
    };

    return cmocka_run_group_tests(tests, enter_config_folder,
                                  leave_config_folder);
}
