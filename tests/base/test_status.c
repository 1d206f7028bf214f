/* Status names are distinct, error messages are one bounded line with the
 * fields to blame, and a broken invariant aborts the process. */
#include "base/halves.h"
#include "base/numa.h"
#include "base/status.h"
#include "lib/signal_of_child.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_status_names(void **state)
{
    (void)state;
    assert_string_equal(vp_status_name(VP_OK), "ok");
    assert_string_equal(vp_status_name(VP_ERR_NOMEM), "out of memory");
    assert_string_equal(vp_status_name(VP_ERR_END), "end of data");
    for (int a = VP_OK; a <= VP_ERR_END; a++)
        for (int b = VP_OK; b < a; b++)
            assert_string_not_equal(vp_status_name((enum vp_status)a),
                                    vp_status_name((enum vp_status)b));
    assert_string_equal(vp_status_name((enum vp_status)1000), "unknown status");
    assert_string_equal(vp_status_name((enum vp_status) - 1), "unknown status");
}

static void test_err_set(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_err_set(&err, VP_ERR_IO, "%s:%d: bad", "a.yml", 7),
                     VP_ERR_IO);
    assert_string_equal(err.text, "a.yml:7: bad");
    assert_int_equal(vp_err_set(NULL, VP_ERR_TIMEOUT, "%d", 1), VP_ERR_TIMEOUT);
}

static void test_err_names_fields(void **state)
{
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_err_refuse(&err, "heads hidden", "%d heads", 3),
                     VP_ERR_INVALID);
    assert_string_equal(err.text, "3 heads");
    assert_string_equal(err.fields, "heads hidden");
    vp_err_prefix(&err, "a.yml:1");
    assert_string_equal(err.text, "a.yml:1: 3 heads");
    vp_err_suffix(&err, "; use %d", 4);
    assert_string_equal(err.text, "a.yml:1: 3 heads; use 4");
    vp_err_suffix(NULL, "nobody listens");
    assert_string_equal(err.fields, "heads hidden");
    vp_err_set(&err, VP_ERR_IO, "another");
    assert_null(err.fields);
    assert_int_equal(vp_err_refuse(NULL, "heads", "none"), VP_ERR_INVALID);
}

static void test_err_write(void **state)
{
    static const struct {
        int error;
        const char *want;
    } cases[] = {
        { ENOSPC, "a/b: cannot be written (No space left on device); free some "
                  "space" },
        { EDQUOT, "a/b: cannot be written (Disk quota exceeded); free some "
                  "space" },
        { EFBIG, "a/b: cannot be written (File too large); raise the limit of "
                 "file sizes (ulimit -f)" },
        { EACCES, "a/b: cannot be written (Permission denied); make its folder "
                  "writable, or choose another" },
        { ENOENT,
          "a/b: cannot be written (No such file or directory); check that "
          "its folder exists, or choose another" },
        { EIO, "a/b: cannot be written (Input/output error); choose another "
               "folder" },
    };
    struct vp_err err;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        assert_int_equal(vp_err_write(&err, "a/b", cases[i].error), VP_ERR_IO);
        assert_string_equal(err.text, cases[i].want);
    }
}

static void test_err_prefix(void **state)
{
    struct vp_err err = { .text = "cause" };

    (void)state;
    vp_err_prefix(&err, "stage %d", 3);
    assert_string_equal(err.text, "stage 3: cause");
    vp_err_prefix(&err, "rank %d", 1);
    assert_string_equal(err.text, "rank 1: stage 3: cause");
    vp_err_prefix(NULL, "nobody listens");
}

/* Long text is cut, nothing is written past the end, and the result is
 * terminated. */
static void test_err_is_bounded(void **state)
{
    struct {
        struct vp_err err;
        char canary[16];
    } box;
    char text[3 * sizeof(box.err.text)];

    (void)state;
    memset(&box, 'c', sizeof(box));
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';

    vp_err_set(&box.err, VP_ERR_INVALID, "%s", text);
    assert_int_equal(strlen(box.err.text), sizeof(box.err.text) - 1);
    vp_err_prefix(&box.err, "front");
    assert_int_equal(strlen(box.err.text), sizeof(box.err.text) - 1);
    assert_memory_equal(box.err.text, "front: xxx", 10);
    vp_err_prefix(&box.err, "%s", text);
    assert_int_equal(strlen(box.err.text), sizeof(box.err.text) - 1);
    assert_memory_equal(box.canary, "cccccccccccccccc", 16);
}

static enum vp_status try_twice(enum vp_status first, int *reached)
{
    VP_TRY(first);
    *reached = 1;
    VP_TRY(VP_OK);
    *reached = 2;
    return VP_OK;
}

static void test_try(void **state)
{
    int reached = 0;

    (void)state;
    assert_int_equal(try_twice(VP_ERR_NONFINITE, &reached), VP_ERR_NONFINITE);
    assert_int_equal(reached, 0);
    assert_int_equal(try_twice(VP_OK, &reached), VP_OK);
    assert_int_equal(reached, 2);
}

static void trip_bug(void *arg)
{
    VP_BUG_ON(*(int *)arg == 42);
}

static void test_bug_on(void **state)
{
    char text[512];
    int n = 41;

    (void)state;
    assert_int_equal(signal_of_child(trip_bug, &n, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    n = 42;
    assert_int_equal(signal_of_child(trip_bug, &n, text, sizeof(text)),
                     SIGABRT);
    assert_non_null(strstr(text, "test_status.c:"));
    assert_non_null(strstr(text, "*(int *)arg == 42"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_err_set),
        cmocka_unit_test(test_err_names_fields),
        cmocka_unit_test(test_err_write),
        cmocka_unit_test(test_err_prefix),
        cmocka_unit_test(test_err_is_bounded),
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_bug_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
