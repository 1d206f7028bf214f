/* Migration: from one plan to another in the middle of a run.
 *
 *     from   ... step k | ................................ | freed
 *     next     created  | takes over: state, counts, data  | step k + 1 ...
 *
 * The trainer for the new plan is created beside the old one, which goes on
 * training meanwhile: ranks, memory, programs and links are ready when the old
 * one stops after a step. Then every rank of the new one copies the state of its
 * blocks. Synchronous training goes on bit by bit as it would have. In
 * asynchronous training a minibatch after the move uses the version of weights
 * that its stage of the new plan has for it, counted as before; older versions
 * that blocks need there are kept by the old stages (older_versions.h). With other
 * depths a segment starts: minibatches begin on the newest weights.
 * Data needs no move: a batch is a function of its number. */
#ifndef VP_RUNTIME_TRAINER_MIGRATE_H
#define VP_RUNTIME_TRAINER_MIGRATE_H

#include "runtime/trainer/trainer.h"

/* Creates a trainer for `plan`, without state. What the plan borrows must
 * outlive it. May run on another thread while `from` trains. Several processes all
 * come here, and meanwhile leave vp_world_agree() and vp_world_share() to this
 * thread. Refuses, in one line, a plan that the run cannot go on with. A next
 * trainer that is not used is freed before `from`, whose ranks are idle then. */
enum vp_status vp_trainer_create_next(struct vp_trainer *from,
                                      const struct vp_plan *plan,
                                      struct vp_trainer **out,
                                      struct vp_err *err);

/* Returns true if `from` has all versions of weights that `next` needs, as far as
 * this process knows. Until then `from` should train on: for a few rounds more
 * than the first stage lags behind. Called on the thread that runs `from`, also
 * inside of vp_step_fn. */
bool vp_trainer_can_take_over(struct vp_trainer *next);

/* Result of a move. */
struct vp_migration {
    int n_moved;     /* blocks that changed their rank */
    int64_t n_bytes; /* of their state */
    double seconds;  /* of vp_trainer_take_over() */
    /* False: depths differ or versions of weights were missing, and minibatches
     * start on the newest ones. */
    bool exact;
};

/* In the lead of several processes: the others' vp_trainer_follow() returns, so that
 * all create the next trainer while they train on, or let it take over. */
enum vp_status vp_trainer_order_prepare(struct vp_trainer *trainer,
                                        struct vp_err *err);
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
