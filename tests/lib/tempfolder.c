#include "lib/tempfolder.h"

#include <stdlib.h>
#include <unistd.h>

char temp_folder[] = "/tmp/vpipe_test_XXXXXX";

int enter_temp_folder(void **state)
{
    (void)state;
    return !mkdtemp(temp_folder) || chdir(temp_folder) != 0;
}

int leave_temp_folder(void **state)
{
    (void)state;
    return chdir("/") | remove_tree(temp_folder);
}
