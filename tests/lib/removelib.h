/* Removing what a test wrote. */
#ifndef VP_TESTS_LIB_REMOVELIB_H
#define VP_TESTS_LIB_REMOVELIB_H

/* A folder and all that is in it; links are not followed. Returns 0, or -1. */
int remove_tree(const char *path);

#endif
