/* Opening a device: the part that is the same for all backends. */
#include "backend/backend.h"

struct vp_device *vp_backend_device(struct vp_backend *backend)
{
    return (struct vp_device *)backend;
}

enum vp_status vp_backend_open(const struct vp_backend_ops *ops,
                               const struct vp_backend_config *config,
                               struct vp_backend **out, struct vp_err *err)
{
    VP_TRY(ops->open(config, out, err));
    vp_backend_device(*out)->ops = ops->device;
    return VP_OK;
}
