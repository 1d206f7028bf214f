/* Transports between processes: shared libraries beside the program. */
#include "base/plugin.h"
#include "comm/transport.h"

#include <dlfcn.h>
#include <stdio.h>

static enum vp_status load(const char *transport, vp_join_fn *join_out,
                           struct vp_err *err)
{
    char file[64];
    const int *abi;
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
    abi = dlsym(handle, VP_PLUGIN_COMM_ABI);
    *(void **)join_out = dlsym(handle, VP_PLUGIN_JOIN);
    if (!abi || *abi != VP_COMM_ABI || !*join_out) {
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
    vp_join_fn join = NULL;

    VP_TRY(load(transport, &join, err));
    return join(self, n_ranks, processes, out, err);
}
