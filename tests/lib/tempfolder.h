/* A temporary folder for a test program, which is its working directory: group
 * functions for cmocka_run_group_tests(). The folder is removed with its
 * contents. */
#ifndef VP_TESTS_LIB_TEMPFOLDER_H
#define VP_TESTS_LIB_TEMPFOLDER_H

#include "lib/removelib.h"

extern char temp_folder[];

int enter_temp_folder(void **state);

int leave_temp_folder(void **state);

#endif
