/* A fresh folder for every test, which is removed with all that is in it. */
#ifndef VP_TESTS_LIB_TESTFOLDER_H
#define VP_TESTS_LIB_TESTFOLDER_H

extern char folder[256];

/* Set-up and tear-down of a test. */
int make_folder(void **state);

int remove_folder(void **state);

/* The path of a name in the test's folder; four may be in use at a time. */
const char *at(const char *name);

#endif
