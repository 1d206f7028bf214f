/* The checks of --dry-run. */
#include "run/dry_run.h"

/* Opens the backend of each rank for planning: it refuses what it would refuse
 * in a run. */
static enum vp_status check_backends(const struct vp_train_config *train,
                                     int n_ranks, struct vp_err *err)
{
    for (int r = 0; r < n_ranks; r++) {
        struct vp_backend_config config = vp_train_backend_config(train, r);
        struct vp_backend *backend;
        enum vp_status st = vp_backend_open(train->backend, &config, &backend,
                                            err);

        if (st != VP_OK && !err->fields)
            err->fields = "device";
        VP_TRY(st);
        train->backend->close(backend);
    }
    return VP_OK;
}

enum vp_status vp_dry_run(const struct vp_train_config *train,
                          struct vp_priced_plan *out, struct vp_err *err)
{
    VP_TRY(vp_priced_plan_make(train, out, err));
    VP_TRY(check_backends(train, out->schedule.n_ranks, err));
    return vp_fit_lacks(train, &out->schedule, out->stages, err) == VP_LACK_NONE
               ? VP_OK
               : VP_ERR_INVALID;
}
