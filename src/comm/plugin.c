/* Loads transports between processes from shared libraries. */
#include "base/plugin.h"
#include "base/blocking.h"
#include "comm/transport.h"

#include <dlfcn.h>
#include <stdio.h>

/* Functions of a loaded library. */
struct plugin {
    __typeof__(&vp_plugin_comm_version) version;
    __typeof__(&vp_plugin_describe) describe;
    __typeof__(&vp_plugin_join) join;
};

static bool load(const char *transport, struct plugin *out, struct vp_err *err)
{
    char file[64];
    void *handle;

    snprintf(file, sizeof(file), "libvpipe_%.40s.so", transport);
    handle = vp_plugin_open(file);
    if (!handle) {
        const char *why = dlerror();

        vp_err_set(err, VP_ERR_UNSUPPORTED,
                   "transport %s: %s cannot be loaded (%s); build it with "
                   "'make all', which needs mpicc, or start one process",
                   transport, file, why ? why : "no such file");
        return false;
    }
    *(void **)&out->version = dlsym(handle, "vp_plugin_comm_version");
    *(void **)&out->describe = dlsym(handle, "vp_plugin_describe");
    *(void **)&out->join = dlsym(handle, "vp_plugin_join");
    if (!out->version || out->version() != VP_COMM_ABI || !out->describe ||
        !out->join) {
        dlclose(handle);
        vp_err_set(err, VP_ERR_UNSUPPORTED,
                   "transport %s: %s belongs to another vpipe; install "
                   "both from one build",
                   transport, file);
        return false;
    }
    return true;
}

enum vp_status vp_world_join(const char *transport,
                             const struct vp_processes *self, int n_ranks,
                             const int *processes, struct vp_world **out,
                             struct vp_err *err)
{
    struct plugin plugin = { NULL, NULL, NULL };
    enum vp_status st;
    int call;

    if (!load(transport, &plugin, err))
        return VP_ERR_UNSUPPORTED;
    call = vp_blocking_begin(VP_BLOCKING_PEERS, "joining the other ranks", NULL,
                             -1);
    st = plugin.join(self, n_ranks, processes, out, err);
    vp_blocking_end(call);
    return st;
}

enum vp_status vp_transport_describe(const char *transport, char *text,
                                     size_t n_bytes, struct vp_err *err)
{
    struct plugin plugin = { NULL, NULL, NULL };

    if (!load(transport, &plugin, err))
        return VP_ERR_UNSUPPORTED;
    plugin.describe(text, n_bytes);
    return VP_OK;
}
