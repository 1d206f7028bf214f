#include "lib/testfolder.h"

#include "lib/removelib.h"

#include <stdio.h>
#include <stdlib.h>

char folder[256];

int make_folder(void **state)
{
    char *tmp = realpath(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", NULL);

    (void)state;
    snprintf(folder, sizeof(folder), "%s/vpipe-test-XXXXXX", tmp ? tmp : ".");
    free(tmp);
    return mkdtemp(folder) ? 0 : -1;
}

int remove_folder(void **state)
{
    (void)state;
    return remove_tree(folder);
}

const char *at(const char *name)
{
    static char paths[4][1024];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", folder, name);
    return paths[turn];
}
