/* Finding NCCL. */
#include "comm/nccl/api.h"

#include "base/plugin.h"

#include <dlfcn.h>

static const struct {
    const char *symbol;
    size_t at; /* in struct vp_nccl_api */
} functions[] = {
#define FUNCTION(name, field)                     \
    {                                             \
        name, offsetof(struct vp_nccl_api, field) \
    }
    FUNCTION("ncclGetVersion", version),
    FUNCTION("ncclGetErrorString", error_text),
    FUNCTION("ncclGetLastError", last_error),
    FUNCTION("ncclGetUniqueId", make_id),
    FUNCTION("ncclCommInitRank", join),
    FUNCTION("ncclCommDestroy", destroy),
    FUNCTION("ncclCommAbort", break_off),
    FUNCTION("ncclCommGetAsyncError", async_error),
    FUNCTION("ncclGroupStart", group_start),
    FUNCTION("ncclGroupEnd", group_end),
    FUNCTION("ncclSend", send),
    FUNCTION("ncclRecv", receive),
    FUNCTION("ncclAllGather", all_gather),
    FUNCTION("ncclAllReduce", all_reduce),
#undef FUNCTION
};

static enum vp_status find_functions(void *library, struct vp_nccl_api *api,
                                     struct vp_err *err)
{
    for (size_t i = 0; i < VP_COUNT_OF(functions); i++) {
        void *function = dlsym(library, functions[i].symbol);

        if (!function)
            return vp_err_set(err, VP_ERR_UNSUPPORTED,
                              "libnccl.so.2 has no %s; install NCCL 2.18 or "
                              "newer",
                              functions[i].symbol);
        *(void **)((char *)api + functions[i].at) = function;
    }
    return VP_OK;
}

enum vp_status vp_nccl_load(const struct vp_nccl_api **out, struct vp_err *err)
{
    static struct vp_nccl_api api;
    void *library = vp_library_open("libnccl.so.2");
    int version = 0;

    if (!library)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "libnccl.so.2 was not found; install NCCL 2, or name "
                          "its folder in VPIPE_LIBRARIES");
    VP_TRY(find_functions(library, &api, err));
    if (api.version(&version) != VP_NCCL_OK || version < VP_NCCL_OLDEST)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "libnccl.so.2 is version %d; install NCCL 2.18 or "
                          "newer",
                          version);
    *out = &api;
    return VP_OK;
}
