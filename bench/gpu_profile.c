/* Takes profiles of a GPU by the functions of its backend. */
#include "gpu_profile.h"

#include "backend/plugin.h"
#include "lab.h"

static void *cupti(void)
{
    return vp_backend_library("libcupti.so.13");
}

static void check(enum vp_status st, const struct vp_err *err)
{
    if (st != VP_OK)
        lab_die("profile", err);
}

void gpu_profile_begin(struct vp_backend *backend, bool by_call)
{
    enum vp_status (*begin)(struct vp_backend *, void *, bool, struct vp_err *);
    struct vp_err err = { .text = "" };

    *(void **)&begin = vp_backend_symbol("cuda", "vp_cuda_profile_begin");
    check(begin(backend, cupti(), by_call, &err), &err);
}

struct vp_profile gpu_profile_end(struct vp_backend *backend)
{
    enum vp_status (*end)(struct vp_backend *, struct vp_profile *,
                          struct vp_err *);
    struct vp_profile profile;
    struct vp_err err = { .text = "" };

    *(void **)&end = vp_backend_symbol("cuda", "vp_cuda_profile_end");
    check(end(backend, &profile, &err), &err);
    return profile;
}

void gpu_profile_alone(struct vp_backend *backend, struct vp_profile *profile)
{
    enum vp_status (*alone)(struct vp_backend *, void *, struct vp_profile *,
                            struct vp_err *);
    struct vp_err err = { .text = "" };

    *(void **)&alone = vp_backend_symbol("cuda", "vp_cuda_profile_alone");
    check(alone(backend, cupti(), profile, &err), &err);
}
