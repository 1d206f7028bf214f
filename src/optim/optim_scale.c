/* The loss scale, and how a dynamic one changes. */
#include "optim/optim.h"

struct vp_scale vp_scale_resume(const struct vp_scale_config *config,
                                const struct vp_scale *then)
{
    struct vp_scale scale = *then;

    if (!config->dynamic || then->value <= 0.0f)
        scale.value = config->start;
    return scale;
}

float vp_scale_factor(const struct vp_scale *scale)
{
    return scale->value > 0.0f ? scale->value : 1.0f;
}

static void grow(struct vp_scale *scale)
{
    if (2.0f * scale->value <= VP_SCALE_MOST)
        scale->value *= 2.0f;
    scale->in_a_row = 0;
}

static void shrink(struct vp_scale *scale)
{
    if (scale->value >= 2.0f)
        scale->value *= 0.5f;
}

void vp_scale_note(struct vp_scale *scale, bool dynamic, bool made)
{
    if (made) {
        scale->in_a_row = scale->in_a_row < 0 ? 1 : scale->in_a_row + 1;
        if (dynamic && scale->in_a_row >= VP_SCALE_GROWS_AFTER)
            grow(scale);
        return;
    }
    scale->n_skipped++;
    scale->in_a_row = scale->in_a_row > 0 ? -1 : scale->in_a_row - 1;
    if (dynamic)
        shrink(scale);
}
