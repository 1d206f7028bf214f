/* What a rank is doing and did last, in memory that may outlive its process: a
 * mapped file. The rank alone writes; anybody reads, at any time, without
 * locks. All zero: nothing was done yet. */
#ifndef VP_RUNTIME_RANK_BOX_H
#define VP_RUNTIME_RANK_BOX_H

#include "sched/schedule.h"

#include <stdatomic.h>
#include <stdint.h>

enum { VP_BOX_LAST = 64 };

struct vp_box {
    atomic_ullong doing;             /* an action in one word; 0: nothing */
    atomic_llong since_ns;           /* when it began */
    atomic_llong waits_ns;           /* when it began to wait; 0: it computes */
    atomic_llong n_actions;          /* done */
    atomic_ullong last[VP_BOX_LAST]; /* done: number n is in place n mod size */
};

/* One look into a box. Times are of the host's monotonic clock. */
struct vp_doing {
    bool idle;               /* no action; the next six say nothing */
    struct vp_action action; /* kind, stage, peer; mb as below */
    bool eval;
    int64_t since_ns;
    int64_t waits_ns; /* 0: it computes */
    int64_t n_actions;
};

/* `mb`: the number of the minibatch or round in the run. The action's peer is
 * the user's number of the other rank. */
void vp_box_begin(struct vp_box *box, const struct vp_action *action,
                  int32_t mb, bool eval, int64_t now_ns);
void vp_box_end(struct vp_box *box);
/* Between two actions that have nothing to do with each other. */
void vp_box_rest(struct vp_box *box);
struct vp_doing vp_box_read(const struct vp_box *box);
/* Action number `i` of those done; false if it is not there (any more). */
bool vp_box_last(const struct vp_box *box, int64_t i, struct vp_action *out);

#endif
