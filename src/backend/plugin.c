/* The list of backend plugins, and loading them with a one-line reason on
 * failure. */
#include "backend/plugin.h"

#include "base/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LIBS = 2 };

struct library {
    const char *file;
    const char *remedy;
};

static struct plugin {
    const char *name, *file;
    const char *driver, *no_driver; /* its library; message without it */
    struct library libs[MAX_LIBS];  /* third-party libraries that it needs */
    void *handle;
    const struct vp_backend_ops *ops;
} plugins[] = {
    { .name = "cuda",
      .file = "libvpipe_cuda.so",
      .driver = "libcuda.so.1",
      .no_driver = "there is no NVIDIA driver; install one",
      .libs = { { "libcublasLt.so.13", "install cuBLAS of CUDA 13" },
                { "libcudnn.so.9", "install cuDNN 9" } } },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Loading ------------------------------------------------------------ */

static struct plugin *find(const char *name)
{
    for (size_t i = 0; i < VP_COUNT_OF(plugins); i++)
        if (strcmp(plugins[i].name, name) == 0)
            return &plugins[i];
    return NULL;
}

/* Opens the plugin with the libraries that it needs. Without a driver they are of
 * no use, so a missing driver is reported in place of a missing library. */
static enum vp_status open_plugin(struct plugin *plugin, struct vp_err *err)
{
    const struct library *missing = NULL;
    const char *reason;
    char why[256]; /* a later dlopen() replaces the text of dlerror() */

    for (int i = 0; i < MAX_LIBS && plugin->libs[i].file && !missing; i++)
        if (!vp_library_open(plugin->libs[i].file))
            missing = &plugin->libs[i];
    if (!missing)
        plugin->handle = vp_plugin_open(plugin->file);
    if (plugin->handle)
        return VP_OK;
    reason = missing ? NULL : dlerror();
    snprintf(why, sizeof(why), "%s", reason ? reason : "no such file");
    if (!vp_library_open(plugin->driver))
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "device %s: %s, or use device: cpu", plugin->name,
                          plugin->no_driver);
    if (missing)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "device %s: %s was not found; %s, or name its "
                          "folder in VPIPE_LIBRARIES",
                          plugin->name, missing->file, missing->remedy);
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "device %s: %s cannot be loaded (%s); build it with "
                      "'make all', which needs nvcc, or use device: cpu",
                      plugin->name, plugin->file, why);
}

static enum vp_status load(struct plugin *plugin, struct vp_err *err)
{
    const struct vp_backend_ops *(*backend)(void);
    const int *abi;

    VP_TRY(open_plugin(plugin, err));
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
    return vp_library_open(file);
}

void *vp_backend_symbol(const char *name, const char *symbol)
{
    struct plugin *plugin = find(name);

    return plugin && plugin->handle ? dlsym(plugin->handle, symbol) : NULL;
}
