/* The name of a run folder has only characters that need no quoting for
 * containers, scp and rsync, and two runs of the same second get different
 * names. */
#include "lib/tempfolder.h"
#include "run/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_folder_name(void **state)
{
    const struct vp_config config = { .log_directory = "some" };
    char path[64], again[64];

    (void)state;
    vp_folder_choose(&config, "", path, sizeof(path));
    assert_int_equal(strspn(path, "some/0123456789-T"), strlen(path));
    assert_int_equal(strlen(path), strlen("some/2026-01-31T12-30-59"));
    assert_int_equal(mkdir("some", 0777) | mkdir(path, 0777), 0);
    vp_folder_choose(&config, "", again, sizeof(again));
    assert_int_not_equal(access(again, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder_name),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
