#include "base/plugin.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH = 4096 };

void *vp_library_in(const char *pattern, const char *file)
{
    char path[MAX_PATH];
    glob_t found;
    void *handle = NULL;

    if (snprintf(path, sizeof(path), "%s/%s", pattern, file) >=
        (int)sizeof(path))
        return NULL;
    if (glob(path, GLOB_NOSORT, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !handle; i++)
        handle = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
    globfree(&found);
    return handle;
}

void *vp_library_in_list(const char *list, const char *below, const char *file)
{
    char path[MAX_PATH];
    void *handle = NULL;

    while (list && *list && !handle) {
        int n = (int)strcspn(list, ":");

        if (n > 0 && snprintf(path, sizeof(path), "%.*s%s", n, list, below) <
                         (int)sizeof(path))
            handle = vp_library_in(path, file);
        list += n + (list[n] == ':');
    }
    return handle;
}

/* The folder of the running program. */
static const char *own_folder(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    char *slash;

    if (n <= 0)
        return ".";
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return path;
}

void *vp_library_beside(const char *file)
{
    char path[MAX_PATH];
    const char *own = own_folder(path, sizeof(path));
    void *handle = vp_library_in_list(own, "", file);

    if (!handle)
        handle = vp_library_in_list(own, "/../lib/vpipe", file);
    if (!handle)
        handle = vp_library_in_list(own, "/../lib/*/vpipe", file);
    return handle;
}

void *vp_library_open(const char *file)
{
    static const char python[] = "/../lib/python3*/site-packages/nvidia/*/lib";
    void *handle = vp_library_in_list(getenv("VPIPE_LIBRARIES"), "", file);

    if (!handle)
        handle = vp_library_beside(file);
    if (!handle)
        handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (!handle)
        handle = vp_library_in_list(getenv("CUDA_HOME"), "/lib*", file);
    if (!handle)
        handle = vp_library_in("/usr/local/cuda*/lib*", file);
    if (!handle)
        handle = vp_library_in_list(getenv("PATH"), python, file);
    if (!handle)
        handle = vp_library_in(
            "/usr/local/lib/python3*/dist-packages/nvidia/*/lib", file);
    return handle;
}

void *vp_plugin_open(const char *file)
{
    void *handle = vp_library_in_list(getenv("VPIPE_PLUGINS"), "", file);

    return handle ? handle : vp_library_beside(file);
}
