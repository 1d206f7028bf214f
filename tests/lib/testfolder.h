/* A new temporary folder for every test, which is removed with its contents. */
#ifndef VP_TESTS_LIB_TESTFOLDER_H
#define VP_TESTS_LIB_TESTFOLDER_H

extern char folder[256];

/* Setup and teardown functions of a test. */
int make_folder(void **state);

int remove_folder(void **state);

/* Returns the path of `name` in the test's folder; valid for the next three
 * calls. */
const char *at(const char *name);

#endif
