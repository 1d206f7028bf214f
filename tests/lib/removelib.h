/* Removes files and folders that a test wrote. */
#ifndef VP_TESTS_LIB_REMOVELIB_H
#define VP_TESTS_LIB_REMOVELIB_H

/* Removes a folder and all that is in it; links are not followed. Returns 0, or
 * -1 on failure. */
int remove_tree(const char *path);

#endif
