#include "backend/plugin.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH = 4096, MAX_LIBS = 2 };

struct library {
    const char *file;
    const char *remedy;
};

static struct plugin {
    const char *name, *file;
    struct library libs[MAX_LIBS]; /* needed, not part of vpipe */
    void *handle;
    const struct vp_backend_ops *ops;
} plugins[] = {
    { .name = "cuda",
      .file = "libvpipe_cuda.so",
      .libs = { { "libcublasLt.so.13", "install cuBLAS of CUDA 13" },
                { "libcudnn.so.9", "install cuDNN 9" } } },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Where to look ------------------------------------------------------ */

/* Opens DIR/FILE for every folder that matches a pattern; the first that
 * loads. */
static void *open_in(const char *pattern, const char *file)
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

/* For every folder of a list like PATH, with `below` put behind it. */
static void *open_in_list(const char *list, const char *below, const char *file)
{
    char path[MAX_PATH];
    void *handle = NULL;

    while (list && *list && !handle) {
        int n = (int)strcspn(list, ":");

        if (n > 0 && snprintf(path, sizeof(path), "%.*s%s", n, list, below) <
                         (int)sizeof(path))
            handle = open_in(path, file);
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

static void *open_own(const char *file)
{
    char path[MAX_PATH];
    const char *own = own_folder(path, sizeof(path));
    void *handle = open_in_list(own, "", file);

    if (!handle)
        handle = open_in_list(own, "/../lib/vpipe", file);
    if (!handle)
        handle = open_in_list(own, "/../lib/*/vpipe", file);
    return handle;
}

static void *open_plugin(const char *file)
{
    void *handle = open_in_list(getenv("VPIPE_PLUGINS"), "", file);

    return handle ? handle : open_own(file);
}

static void *open_library(const char *file)
{
    static const char python[] = "/../lib/python3*/site-packages/nvidia/*/lib";
    void *handle = open_in_list(getenv("VPIPE_LIBRARIES"), "", file);

    if (!handle)
        handle = open_own(file);
    if (!handle)
        handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (!handle)
        handle = open_in_list(getenv("CUDA_HOME"), "/lib*", file);
    if (!handle)
        handle = open_in("/usr/local/cuda*/lib*", file);
    if (!handle)
        handle = open_in_list(getenv("PATH"), python, file);
    if (!handle)
        handle = open_in("/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
                         file);
    return handle;
}

/* ---- Loading ------------------------------------------------------------ */

static struct plugin *find(const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(plugins); i++)
        if (strcmp(plugins[i].name, name) == 0)
            return &plugins[i];
    return NULL;
}

static enum vp_status load(struct plugin *plugin, struct vp_err *err)
{
    const struct vp_backend_ops *(*backend)(void);
    const int *abi;

    for (int i = 0; i < MAX_LIBS && plugin->libs[i].file; i++)
        if (!open_library(plugin->libs[i].file))
            return vp_err_set(err, VP_ERR_UNSUPPORTED,
                              "device %s: %s was not found; %s, or name its "
                              "folder in VPIPE_LIBRARIES",
                              plugin->name, plugin->libs[i].file,
                              plugin->libs[i].remedy);
    plugin->handle = open_plugin(plugin->file);
    if (!plugin->handle) {
        const char *why = dlerror();

        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "device %s: %s cannot be loaded (%s); build vpipe "
                          "where nvcc is, or use device: cpu",
                          plugin->name, plugin->file,
                          why ? why : "no such file");
    }
    abi = dlsym(plugin->handle, VP_PLUGIN_ABI);
    *(void **)&backend = dlsym(plugin->handle, VP_PLUGIN_BACKEND);
    if (!abi || *abi != VP_BACKEND_ABI || !backend) {
        dlclose(plugin->handle);
        plugin->handle = NULL;
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "device %s: %s belongs to another vpipe; install "
                          "both from one build",
                          plugin->name, plugin->file);
    }
    plugin->ops = backend();
    return VP_OK;
}

enum vp_status vp_backend_load(const char *name,
                               const struct vp_backend_ops **out,
                               struct vp_err *err)
{
    struct plugin *plugin = find(name);
    enum vp_status st = VP_OK;

    if (!plugin)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "there is no device '%.40s'; use cpu or cuda", name);
    pthread_mutex_lock(&lock);
    if (!plugin->ops)
        st = load(plugin, err);
    pthread_mutex_unlock(&lock);
    *out = plugin->ops;
    return st;
}

void *vp_backend_library(const char *file)
{
    return open_library(file);
}

void *vp_backend_symbol(const char *name, const char *symbol)
{
    struct plugin *plugin = find(name);

    return plugin && plugin->handle ? dlsym(plugin->handle, symbol) : NULL;
}
