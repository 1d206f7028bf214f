/* Names, letters and colours of actions in pictures. */
#include "sched/look.h"

const struct vp_look *vp_action_look(enum vp_action_kind kind)
{
    static const struct vp_look looks[VP_ACTION_KIND_COUNT] = {
        [VP_ACTION_F] = { "forward", 'F', VP_HUE_FORWARD },
        [VP_ACTION_R] = { "recompute", 'R', VP_HUE_RECOMPUTE },
        [VP_ACTION_B] = { "backward", 'B', VP_HUE_BACKWARD },
        [VP_ACTION_W] = { "weight gradient", 'W', VP_HUE_WEIGHT },
        [VP_ACTION_REDUCE] = { "reduce", '+', VP_HUE_REDUCE },
        [VP_ACTION_UPDATE] = { "update", 'U', VP_HUE_UPDATE },
    };

    return &looks[kind];
}
