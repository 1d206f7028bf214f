/* Transports between processes: shared libraries beside the program. */
#include "base/plugin.h"
#include "comm/transport.h"

#include <dlfcn.h>
#include <stdio.h>

struct plugin {
    vp_join_fn join;
    vp_describe_fn describe;
};

static enum vp_status load(const char *transport, struct plugin *out,
                           struct vp_err *err)
{
    char file[64];
    vp_comm_abi_fn abi;
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
    *(void **)&abi = dlsym(handle, VP_PLUGIN_COMM_ABI);
    *(void **)&out->join = dlsym(handle, VP_PLUGIN_JOIN);
    *(void **)&out->describe = dlsym(handle, VP_PLUGIN_DESCRIBE);
    if (!abi || abi() != VP_COMM_ABI || !out->join || !out->describe) {
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
    struct plugin plugin = { NULL, NULL };

    VP_TRY(load(transport, &plugin, err));
    return plugin.join(self, n_ranks, processes, out, err);
}

enum vp_status vp_transport_describe(const char *transport, char *text,
                                     size_t n_bytes, struct vp_err *err)
{
    struct plugin plugin = { NULL, NULL };

    VP_TRY(load(transport, &plugin, err));
    plugin.describe(text, n_bytes);
    return VP_OK;
}
