/* Migration: from one plan to another in the middle of a run.
 *
 *     from   ... step k | ................................ | freed
 *     next     created  | takes over: state, counts, data  | step k + 1 ...
 *
 * The trainer for the new plan is created beside the old one, which goes on
 * training meanwhile: ranks, memory, programs and links are ready when the old
 * one stops after a step. Then every rank of the new one copies the state of its
 * blocks. Synchronous training goes on bit by bit as it would have; asynchronous
 * training as a run that was stopped at that step and resumed under the new
 * plan. Data needs no move: a batch is a function of its number. */
#ifndef VP_RUNTIME_TRAINER_MIGRATE_H
#define VP_RUNTIME_TRAINER_MIGRATE_H

#include "runtime/trainer/trainer.h"

/* Creates a trainer for `plan`, without state. What the plan borrows must
 * outlive it. May run on another thread while `from` trains, unless the ranks are
 * several processes, which then all come here. Refuses, in one line, a plan that
 * the run cannot go on with. */
enum vp_status vp_trainer_create_next(const struct vp_trainer *from,
                                      const struct vp_plan *plan,
                                      struct vp_trainer **out,
                                      struct vp_err *err);

/* Result of a move. */
struct vp_migration {
    int n_moved;     /* blocks that changed their rank */
    int64_t n_bytes; /* of their state */
    double seconds;  /* of vp_trainer_take_over() */
    bool
        exact; /* false: versions of weights were missing, and minibatches start
                   on the newest ones */
};

/* In the lead of several processes: the others' vp_trainer_follow() returns.
 * Then all of them create the next trainer and let it take over. */
enum vp_status vp_trainer_order_move(struct vp_trainer *trainer,
                                     struct vp_err *err);

/* `next` gets the state of `from`, which only vp_trainer_free() may be called
 * for afterwards. Both are idle. After a failure `from` can go on, unless its
 * status says otherwise, and `next` can only be freed. */
enum vp_status vp_trainer_take_over(struct vp_trainer *next,
                                    struct vp_trainer *from,
                                    struct vp_migration *out,
                                    struct vp_err *err);

#endif
