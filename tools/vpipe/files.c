/* Writes files at paths that the user gave, and finds configurations that are
 * installed with vpipe. */
#include "tool.h"

#include "base/host.h"
#include "base/path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Levels from the program's folder, which is build/, build/asan/ or
 * PREFIX/bin/, up to the folder that contains the configurations. */
enum { MOST_LEVELS = 3 };

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

    /* Opening and closing a pipe would end its reader's input. */
    if (vp_path_is_special(path))
        return TOOL_OK;
    file = open_place(command, path, true);
    if (!file)
        return TOOL_USAGE;
    fclose(file);
    return TOOL_OK;
}

void tool_find_config(const char *name, char *out, size_t n_bytes)
{
    static const char *const places[] = { "configs", "share/vpipe/configs" };
    char folder[PATH_MAX], *slash;

    snprintf(out, n_bytes, "configs/%s", name);
    if (access(out, R_OK) == 0)
        return;
    if (!vp_program_path(folder, sizeof(folder)))
        folder[0] = '\0';
    for (int i = 0; i < MOST_LEVELS && (slash = strrchr(folder, '/')); i++) {
        *slash = '\0';
        for (size_t k = 0; k < VP_COUNT_OF(places); k++) {
            snprintf(out, n_bytes, "%s/%s/%s", folder, places[k], name);
            if (access(out, R_OK) == 0)
                return;
        }
    }
    snprintf(out, n_bytes, "CONFIG.yml");
}
