/* The constants of an update, the same for all elements of a tensor. */
#include "optim/kernel.h"

#include <math.h>

struct vp_optim_coef vp_optim_coef_of(const struct vp_optim_step *step,
                                      bool decay)
{
    const struct vp_optim_config *config = &step->config;
    double beta1 = config->beta1, beta2 = config->beta2;
    double t = (double)step->t;
    float wd = decay ? config->weight_decay : 0.0f;
    struct vp_optim_coef c = {
        .grad_scale = step->grad_scale,
        .keep = 1.0f,
        .lr = step->lr,
        .beta1 = config->beta1,
        .rest1 = (float)(1.0 - beta1),
        .beta2 = config->beta2,
        .rest2 = (float)(1.0 - beta2),
        .inv_bias1 = (float)(1.0 / (1.0 - pow(beta1, t))),
        .inv_sqrt_bias2 = (float)(1.0 / sqrt(1.0 - pow(beta2, t))),
        .eps = config->eps,
    };

    if (config->kind == VP_OPTIM_SGD || config->kind == VP_OPTIM_ADAM)
        c.l2 = wd;
    else if (config->kind == VP_OPTIM_ADAMW)
        c.keep = (float)(1.0 - (double)step->lr * wd);
    else
        c.decay = wd;
    return c;
}
