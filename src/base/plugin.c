/* Searches folders in a fixed order and opens the first file that loads. */
#include "base/plugin.h"

#include "base/host.h"
#include "base/status.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH = 4096 };

/* Its address identifies the program or library that contains this code. */
static const char own_place[] = "";

static void *open_library(const char *path)
{
    /* dlopen() of a missing file would replace the reason in dlerror(). */
    return access(path, F_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL)
                                   : NULL;
}

static void *open_first(const char *pattern)
{
    glob_t found;
    void *handle = NULL;

    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !handle; i++)
        handle = open_library(found.gl_pathv[i]);
    globfree(&found);
    return handle;
}

void *vp_library_in(const char *folder, const char *below, const char *file)
{
    char path[MAX_PATH], literal[2 * MAX_PATH], *at = literal;
    bool pattern = strpbrk(below, "*?[");

    if (snprintf(path, sizeof(path), "%s%s/%s", folder, below, file) >=
        (int)sizeof(path))
        return NULL;
    if (!pattern)
        return open_library(path);
    for (const char *c = folder; *c; *at++ = *c++)
        if (strchr("*?[\\", *c))
            *at++ = '\\';
    snprintf(at, sizeof(literal) - (size_t)(at - literal), "%s/%s", below,
             file);
    return open_first(literal);
}

void *vp_library_in_list(const char *list, bool absolute, const char *below,
                         const char *file)
{
    char folder[MAX_PATH];
    void *handle = NULL;

    while (list && *list && !handle) {
        int n = (int)strcspn(list, ":");

        if (n > 0 && n < MAX_PATH && (list[0] == '/' || !absolute)) {
            snprintf(folder, sizeof(folder), "%.*s", n, list);
            handle = vp_library_in(folder, below, file);
        }
        list += n + (list[n] == ':');
    }
    return handle;
}

/* The loader reports an empty path for the program itself, and argv[0] is no
 * path if the shell found the program in PATH: that path comes from the
 * kernel. */
static bool find_own_path(char *out, size_t n)
{
    struct link_map *map = NULL;
    char path[MAX_PATH];
    Dl_info info;

    if (dladdr1((const void *)own_place, &info, (void **)&map,
                RTLD_DL_LINKMAP) == 0 ||
        !map || !map->l_name[0])
        return vp_program_path(out, n);
    return realpath(map->l_name, path) && snprintf(out, n, "%s", path) < (int)n;
}

void *vp_library_beside(const char *file)
{
    static const char *const below[] = { "", "/vpipe", "/../lib/vpipe",
                                         "/../lib/*/vpipe", "/../lib64/vpipe" };
    char own[MAX_PATH];
    void *handle = NULL;

    if (!find_own_path(own, sizeof(own)))
        return NULL;
    *strrchr(own, '/') = '\0';
    for (size_t i = 0; i < VP_COUNT_OF(below) && !handle; i++)
        handle = vp_library_in(own, below[i], file);
    return handle;
}

void *vp_library_open(const char *file)
{
    static const char python[] = "/../lib/python3*/site-packages/nvidia/*/lib";
    const char *cuda = getenv("CUDA_HOME");
    void *handle = vp_library_in_list(getenv("VPIPE_LIBRARIES"), false, "",
                                      file);

    if (!handle)
        handle = vp_library_beside(file);
    if (!handle)
        handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (!handle && cuda && cuda[0])
        handle = vp_library_in(cuda, "/lib*", file);
    if (!handle)
        handle = vp_library_in("", "/usr/local/cuda*/lib*", file);
    if (!handle)
        handle = vp_library_in_list(getenv("PATH"), true, python, file);
    if (!handle)
        handle = vp_library_in(
            "", "/usr/local/lib/python3*/dist-packages/nvidia/*/lib", file);
    return handle;
}

void *vp_plugin_open(const char *file)
{
    void *handle;

    dlerror(); /* clears the reason of an earlier, unrelated failure */
    handle = vp_library_in_list(getenv("VPIPE_PLUGINS"), false, "", file);
    return handle ? handle : vp_library_beside(file);
}
