/* The blackbox of a rank: its current action and the last ones it has done, in
 * memory that may outlive the process (a mapped file, job/blackbox_file.h).
 * Only the rank writes; any thread or process reads at any time, without locks.
 * All zero: nothing was done yet. */
#ifndef VP_RUNTIME_RANK_BLACKBOX_H
#define VP_RUNTIME_RANK_BLACKBOX_H

#include "sched/schedule.h"

#include <stdatomic.h>
#include <stdint.h>

enum { VP_BLACKBOX_LAST = 64 };

struct vp_blackbox {
    atomic_ullong doing;    /* an action in one word; 0: nothing */
    atomic_llong since_ns;  /* when it began */
    atomic_llong waits_ns;  /* when it began to wait; 0: it computes */
    atomic_llong n_actions; /* done */
    /* Those done: action n is at n mod VP_BLACKBOX_LAST. */
    atomic_ullong last[VP_BLACKBOX_LAST];
};

/* A copy of a blackbox. Times are of the host's monotonic clock. */
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
void vp_blackbox_begin(struct vp_blackbox *blackbox,
                       const struct vp_action *action, int32_t mb, bool eval,
                       int64_t now_ns);
/* Names another peer for the current action, and returns the one that was there: a
 * rank that waits for a member of its group, and not for the peer of its action. */
int vp_blackbox_set_peer(struct vp_blackbox *blackbox, int peer);
void vp_blackbox_end(struct vp_blackbox *blackbox);
/* Between two actions that have nothing to do with each other. */
void vp_blackbox_rest(struct vp_blackbox *blackbox);
struct vp_doing vp_blackbox_read(const struct vp_blackbox *blackbox);
/* Action number `i` of those done; false if it is not there (any more). */
bool vp_blackbox_last(const struct vp_blackbox *blackbox, int64_t i,
                      struct vp_action *out);

#endif
