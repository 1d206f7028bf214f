/* Learning-rate curves. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

/* Warm-up of inverse_sqrt when none is given, in updates. */
#define INVERSE_SQRT_STEPS 4000.0
#define PI 3.14159265358979323846

static const char *const policy_names[VP_LR_POLICY_COUNT] = {
    [VP_LR_CONSTANT] = "constant",
    [VP_LR_STEP] = "step",
    [VP_LR_POLYNOMIAL] = "polynomial",
    [VP_LR_EXPONENTIAL] = "exponential_decay",
    [VP_LR_INVERSE_SQRT] = "inverse_sqrt",
    [VP_LR_COSINE] = "cosine",
};

bool vp_lr_from_name(const char *name, enum vp_lr_policy *out)
{
    for (int i = 0; i < VP_LR_POLICY_COUNT; i++) {
        if (strcmp(name, policy_names[i]) == 0) {
            *out = (enum vp_lr_policy)i;
            return true;
        }
    }
    return false;
}

const char *vp_lr_name(enum vp_lr_policy policy)
{
    return policy_names[policy];
}

static double inverse_sqrt(const struct vp_lr_config *config, int64_t t)
{
    double s = (double)config->warmup * (double)config->total_steps;

    if (s <= 0.0)
        s = INVERSE_SQRT_STEPS;
    return (double)t <= s ? 1.0 : sqrt(s / (double)t);
}

static double cosine(double p, double w)
{
    double done = w < 1.0 ? (p - w) / (1.0 - w) : 0.0;

    return 0.5 * (1.0 + cos(PI * done));
}

/* Returns the factor of the base rate after the warm-up. */
static double decay_factor(const struct vp_lr_config *config, int64_t t,
                           double p)
{
    int64_t epoch = config->steps_per_epoch > 0
                        ? (t - 1) / config->steps_per_epoch
                        : 0;

    switch (config->policy) {
    case VP_LR_STEP:
        return pow(0.1, (double)(epoch / 30));
    case VP_LR_POLYNOMIAL:
        return sqrt(1.0 - p);
    case VP_LR_EXPONENTIAL:
        return pow(0.97, (double)epoch / fmax(config->epochs, 1.0));
    case VP_LR_INVERSE_SQRT:
        return inverse_sqrt(config, t);
    case VP_LR_COSINE:
        return cosine(p, config->warmup);
    default:
        return 1.0;
    }
}

float vp_lr_at(const struct vp_lr_config *config, int64_t t)
{
    double p = 0.0;

    if (config->total_steps > 0) {
        t = t < config->total_steps ? t : config->total_steps;
        p = (double)t / (double)config->total_steps;
        /* Compared as floats: 0.2f is a little more than 0.2, and the update
         * at which p is 0.2 must not fall before it. */
        if ((float)p < config->warmup)
            return (float)(config->base * (p / config->warmup));
    }
    return (float)(config->base * decay_factor(config, t, p));
}
