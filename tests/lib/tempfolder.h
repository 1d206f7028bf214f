/* A folder of its own for a test program, which it works in: group functions for
 * cmocka_run_group_tests(). The folder is removed with all that is in it. */
#ifndef VP_TESTS_TEMPFOLDER_H
#define VP_TESTS_TEMPFOLDER_H

#include "lib/removelib.h"

#include <stdlib.h>
#include <unistd.h>

static char temp_folder[] = "/tmp/vpipe_test_XXXXXX";

static inline int enter_temp_folder(void **state)
{
    (void)state;
    return !mkdtemp(temp_folder) || chdir(temp_folder) != 0;
}

static inline int leave_temp_folder(void **state)
{
    (void)state;
    return chdir("/") | remove_tree(temp_folder);
}

#endif
