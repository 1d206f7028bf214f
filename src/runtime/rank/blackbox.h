/* The blackbox of a rank: its current action and its last actions, in memory
 * that may outlive the process (a mapped file, job/blackbox_file.h). Only the
 * rank writes; any thread or process may read at any time, without locks. All
 * zeros: no action so far. */
#ifndef VP_RUNTIME_RANK_BLACKBOX_H
#define VP_RUNTIME_RANK_BLACKBOX_H

#include "sched/schedule.h"

#include <stdatomic.h>
#include <stdint.h>

enum { VP_BLACKBOX_LAST = 64 };

struct vp_blackbox {
    atomic_ullong doing;    /* the current action, packed; 0: none */
    atomic_llong since_ns;  /* start of the current action */
    atomic_llong waits_ns;  /* start of its current wait; 0: it computes */
    atomic_llong n_actions; /* number of finished actions */
    /* Finished actions: action n is at n mod VP_BLACKBOX_LAST. */
    atomic_ullong last[VP_BLACKBOX_LAST];
};

/* A copy of a blackbox. Times are in ns of the host's monotonic clock. */
struct vp_doing {
    bool idle; /* no action: `action` and `eval` are not set */
    /* Kind, stage and peer; mb as in vp_blackbox_begin(). */
    struct vp_action action;
    bool eval;
    int64_t since_ns;
    int64_t waits_ns; /* 0: it does not wait */
    int64_t n_actions;
};

/* Starts an action at `now_ns`. `mb`: number of the minibatch or round in the
 * run. The action's peer is the other rank's number for users. */
void vp_blackbox_begin(struct vp_blackbox *blackbox,
                       const struct vp_action *action, int32_t mb, bool eval,
                       int64_t now_ns);
/* Sets another peer for the current action, for a rank that waits for a member
 * of its group in place of the action's peer. Returns the previous peer. */
int vp_blackbox_set_peer(struct vp_blackbox *blackbox, int peer);
/* Finishes the current action. */
void vp_blackbox_end(struct vp_blackbox *blackbox);
/* Sets the current action to none. */
void vp_blackbox_rest(struct vp_blackbox *blackbox);
struct vp_doing vp_blackbox_read(const struct vp_blackbox *blackbox);
/* Copies finished action number `i` to `out`. Returns false if it does not
 * exist, or was overwritten. */
bool vp_blackbox_last(const struct vp_blackbox *blackbox, int64_t i,
                      struct vp_action *out);

#endif
