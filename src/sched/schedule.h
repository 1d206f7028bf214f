/* A schedule is data: per rank, a list of actions. Pure: no device, no I/O.
 * Minibatches count from 0 within the group that ends with an update. */
#ifndef VP_SCHED_SCHEDULE_H
#define VP_SCHED_SCHEDULE_H

#include "base/status.h"

#include <stddef.h>

enum vp_action_kind {
    VP_ACTION_F,      /* forward of a minibatch */
    VP_ACTION_R,      /* recompute what F did not keep */
    VP_ACTION_B,      /* backward */
    VP_ACTION_UPDATE, /* write the next weight version */
    VP_ACTION_KIND_COUNT
};

struct vp_action {
    enum vp_action_kind kind;
    int stage;
    int mb;   /* -1 for UPDATE */
    int slot; /* where the minibatch's activations are kept */
};

struct vp_schedule {
    struct vp_action *actions;
    int n_actions;
    int n_slots;
};

/* Synchronous one-forward-one-backward of one stage: a warm-up of
 * n_stages - 1 - stage forwards, then pairs, then the remaining backwards.
 *
 *   stage 0 of 2:  F0 F1 B0 F2 B1 B2 U
 *   stage 1 of 2:  F0 B0 F1 B1 F2 B2 U
 *
 * `recompute` puts R in front of every B. Release with vp_schedule_release().
 */
enum vp_status vp_schedule_1f1b(int stage, int n_stages, int n_mb,
                                int recompute, struct vp_schedule *out);
void vp_schedule_release(struct vp_schedule *schedule);

/* "F0 F1 B0 F2 B1 B2 U"; returns the length like snprintf. */
int vp_schedule_print(const struct vp_schedule *schedule, char *text,
                      size_t n_bytes);

#endif
