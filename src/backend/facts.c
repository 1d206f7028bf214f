#include "backend/facts.h"

struct vp_device_facts vp_backend_facts(const struct vp_backend_ops *ops,
                                        const struct vp_backend_config *config)
{
    return (struct vp_device_facts){
        .host_memory = ops->device->host_memory,
        .updates_early = ops->updates_early,
        .w_linger = ops->w_linger,
        .grad_linger = ops->grad_linger,
        .scratch = ops->scratch_bytes,
        .scratch_ctx = config,
    };
}
