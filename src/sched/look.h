/* Names, letters and colours of actions in pictures and legends. */
#ifndef VP_SCHED_LOOK_H
#define VP_SCHED_LOOK_H

#include "draw/palette.h"
#include "sched/schedule.h"

struct vp_look {
    const char *meaning; /* in legends; NULL: the action is not drawn */
    char letter;         /* in the terminal */
    enum vp_hue hue;
};

const struct vp_look *vp_action_look(enum vp_action_kind kind);

#endif
