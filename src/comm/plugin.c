/* Transports between processes: shared libraries beside the program. */
#include "base/plugin.h"
#include "comm/transport.h"

#include <dlfcn.h>
#include <stdio.h>

/* Of a library, not of this program. */
struct plugin {
    __typeof__(&vp_plugin_comm_version) version;
    __typeof__(&vp_plugin_describe) describe;
    __typeof__(&vp_plugin_join) join;
};

static enum vp_status load(const char *transport, struct plugin *out,
                           struct vp_err *err)
{
    char file[64];
    void *handle;

    snprintf(file, sizeof(file), "libvpipe_%.40s.so", transport);
    handle = vp_plugin_open(file);
    if (!handle) {
        const char *why = dlerror();

        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "transport %s: %s cannot be loaded (%s); build vpipe "
                          "where mpicc is, or start one process",
                          transport, file, why ? why : "no such file");
    }
    *(void **)&out->version = dlsym(handle, "vp_plugin_comm_version");
    *(void **)&out->describe = dlsym(handle, "vp_plugin_describe");
    *(void **)&out->join = dlsym(handle, "vp_plugin_join");
    if (!out->version || out->version() != VP_COMM_ABI || !out->describe ||
        !out->join) {
        dlclose(handle);
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "transport %s: %s belongs to another vpipe; install "
                          "both from one build",
                          transport, file);
    }
    return VP_OK;
}

enum vp_status vp_world_join(const char *transport,
                             const struct vp_processes *self, int n_ranks,
                             const int *processes, struct vp_world **out,
                             struct vp_err *err)
{
    struct plugin plugin = { NULL, NULL, NULL };

    VP_TRY(load(transport, &plugin, err));
    return plugin.join(self, n_ranks, processes, out, err);
}

enum vp_status vp_transport_describe(const char *transport, char *text,
                                     size_t n_bytes, struct vp_err *err)
{
    struct plugin plugin = { NULL, NULL, NULL };

    VP_TRY(load(transport, &plugin, err));
    plugin.describe(text, n_bytes);
    return VP_OK;
}
