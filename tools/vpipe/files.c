/* Files that a command writes where the user said. */
#include "tool.h"

#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void complain(const char *command, const char *path)
{
    fprintf(stderr, "%s: %s: cannot be written (%s); choose another place\n",
            command, path, strerror(errno));
}

static FILE *open_place(const char *command, const char *path, bool append)
{
    FILE *file = vp_path_create(path, append);

    if (!file)
        complain(command, path);
    return file;
}

int tool_write_file(const char *command, const char *path, const char *text)
{
    FILE *file = open_place(command, path, false);
    bool good;

    if (!file)
        return TOOL_USAGE;
    good = fputs(text, file) >= 0;
    good &= fclose(file) == 0;
    if (!good)
        complain(command, path);
    return good ? TOOL_OK : TOOL_FAILED;
}

int tool_check_place(const char *command, const char *path)
{
    FILE *file;

    /* The reader of a pipe would take this for its end. */
    if (vp_path_is_special(path))
        return TOOL_OK;
    file = open_place(command, path, true);
    if (!file)
        return TOOL_USAGE;
    fclose(file);
    return TOOL_OK;
}
