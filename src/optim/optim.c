/* Optimizers by name, and their published constants. */
#include "optim/optim.h"

#include <string.h>

static const struct {
    const char *name;
    int n_moments;
    struct vp_optim_config config;
} kinds[VP_OPTIM_KIND_COUNT] = {
    [VP_OPTIM_SGD] = { "sgd", 1, { .kind = VP_OPTIM_SGD, .beta1 = 0.9f } },
    [VP_OPTIM_ADAM] = { "adam",
                        2,
                        { .kind = VP_OPTIM_ADAM,
                          .beta1 = 0.9f,
                          .beta2 = 0.997f,
                          .eps = 1e-8f } },
    [VP_OPTIM_ADAMW] = { "adamw",
                         2,
                         { .kind = VP_OPTIM_ADAMW,
                           .beta1 = 0.9f,
                           .beta2 = 0.999f,
                           .eps = 1e-8f,
                           .weight_decay = 0.01f } },
    [VP_OPTIM_LAMB] = { "lamb",
                        2,
                        { .kind = VP_OPTIM_LAMB,
                          .beta1 = 0.9f,
                          .beta2 = 0.999f,
                          .eps = 1e-6f,
                          .grad_clip = 1.0f } },
};

bool vp_optim_from_name(const char *name, enum vp_optim_kind *out)
{
    for (int i = 0; i < VP_OPTIM_KIND_COUNT; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            *out = (enum vp_optim_kind)i;
            return true;
        }
    }
    return false;
}

const char *vp_optim_name(enum vp_optim_kind kind)
{
    return kinds[kind].name;
}

struct vp_optim_config vp_optim_defaults(enum vp_optim_kind kind)
{
    return kinds[kind].config;
}

int vp_optim_n_moments(enum vp_optim_kind kind)
{
    return kinds[kind].n_moments;
}

int64_t vp_optim_master_bytes(enum vp_dtype dtype)
{
    switch (dtype) {
    case VP_DTYPE_BF16:
        return sizeof(uint16_t);
    case VP_DTYPE_F16:
        return sizeof(float);
    default:
        return 0;
    }
}
