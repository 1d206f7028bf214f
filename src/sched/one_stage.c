/* The list of one stage alone, without messages. */
#include "sched/schedule.h"

#include <stdlib.h>

static void append(struct vp_schedule *schedule, enum vp_action_kind kind,
                   int stage, int mb)
{
    schedule->actions[schedule->n_actions++] = (struct vp_action){
        .kind = kind,
        .stage = stage,
        .mb = mb,
        .slot = mb < 0 ? 0 : mb % schedule->n_slots,
    };
}

enum vp_status vp_schedule_1f1b(int stage, int n_stages, int n_mb,
                                int recompute, struct vp_schedule *out)
{
    struct vp_schedule schedule = { .actions = NULL };
    int warm_up = n_stages - 1 - stage;
    int n_forward = 0;

    if (warm_up > n_mb - 1)
        warm_up = n_mb - 1;
    schedule.n_slots = warm_up + 1;
    schedule.actions = calloc((size_t)(3 * n_mb + 1),
                              sizeof(*schedule.actions));
    if (!schedule.actions)
        return VP_ERR_NOMEM;
    while (n_forward < warm_up)
        append(&schedule, VP_ACTION_F, stage, n_forward++);
    for (int mb = 0; mb < n_mb; mb++) {
        if (n_forward < n_mb)
            append(&schedule, VP_ACTION_F, stage, n_forward++);
        if (recompute)
            append(&schedule, VP_ACTION_R, stage, mb);
        append(&schedule, VP_ACTION_B, stage, mb);
    }
    append(&schedule, VP_ACTION_UPDATE, stage, -1);
    *out = schedule;
    return VP_OK;
}
