/* Removing what a test wrote. */
#ifndef VP_TESTS_REMOVELIB_H
#define VP_TESTS_REMOVELIB_H

#include <ftw.h>
#include <stdio.h>

static inline int remove_one(const char *path, const struct stat *info,
                             int type, struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* A folder and all that is in it; links are not followed. Returns 0, or -1. */
static inline int remove_tree(const char *path)
{
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
