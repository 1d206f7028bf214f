#include "lib/removelib.h"

#include <ftw.h>
#include <stdio.h>

static int remove_one(const char *path, const struct stat *info, int type,
                      struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

int remove_tree(const char *path)
{
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
