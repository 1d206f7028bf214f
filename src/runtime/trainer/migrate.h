/* Migration: a run continues with another plan.
 *
 *     from   ... step k | ................................ | freed
 *     next     created  | takes over: state, counts, data  | step k + 1 ...
 *
 * The trainer for the new plan is created beside the old one, which continues
 * training: ranks, memory, programs and links are ready when the old one stops
 * after a step. Then every rank of the new one copies the state of its blocks.
 * Synchronous training continues with the same bits as without the move. In
 * asynchronous training a minibatch after the move uses the weight version that
 * its stage of the new plan has for it, counted as before; older versions that
 * blocks need there are kept by the old stages (older_versions.h). With other
 * depths a new segment starts: minibatches begin with the newest weights. Data
 * needs no move: a batch is a function of its number. */
#ifndef VP_RUNTIME_TRAINER_MIGRATE_H
#define VP_RUNTIME_TRAINER_MIGRATE_H

#include "runtime/trainer/trainer.h"

/* Creates a trainer for `plan` that has no state yet. The arrays of the plan
 * must outlive it. May run on another thread while `from` trains. In a world of
 * several processes all processes call it, and until it returns no other thread
 * may call vp_world_agree() or vp_world_share(). Refuses a plan with which the
 * run cannot continue. If the new trainer is not used, free it before `from`,
 * while the ranks of `from` are idle. */
enum vp_status vp_trainer_create_next(struct vp_trainer *from,
                                      const struct vp_plan *plan,
                                      struct vp_trainer **out,
                                      struct vp_err *err);

/* Returns true if `from` has kept all weight versions that `next` needs, as far
 * as this process can tell. Until then `from` should continue training; this
 * takes a few rounds more than the lag of the first stage. Call it on the
 * thread that runs `from`; allowed inside of vp_step_fn. */
bool vp_trainer_can_take_over(struct vp_trainer *next);

/* Result of a move. */
struct vp_migration {
    int n_moved;     /* blocks that are on another rank now */
    int64_t n_bytes; /* size of their state */
    double seconds;  /* duration of vp_trainer_take_over() */
    /* False: depths differ or weight versions were missing, so minibatches
     * start with the newest weights. */
    bool exact;
};

/* Called by the lead of several processes. Makes vp_trainer_follow() of the
 * other processes return, so that all create the next trainer while they train
 * (prepare), or let it take over (move). */
enum vp_status vp_trainer_order_prepare(struct vp_trainer *trainer,
                                        struct vp_err *err);
enum vp_status vp_trainer_order_move(struct vp_trainer *trainer,
                                     struct vp_err *err);

/* Moves the state of `from` to `next`. Both must be idle. After success only
 * vp_trainer_free() may be called for `from`. After a failure `from` can
 * continue, unless its status says otherwise, and `next` can only be freed. */
enum vp_status vp_trainer_take_over(struct vp_trainer *next,
                                    struct vp_trainer *from,
                                    struct vp_migration *out,
                                    struct vp_err *err);

#endif
