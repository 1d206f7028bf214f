/* Re-balancing of a run: takes requests for another plan, decides when the run
 * moves to it, and reports the outcome.
 *
 *   step    step    step    step |move| step    step
 *     ^ asked: a request in the run folder, or, with `rebalance`, stages that
 *     |        measured work shows to be out of balance
 *     +-- the next trainer is prepared on a thread of its own --^ ready
 *
 * See runtime/trainer/migrate.h for the move. One at a time: a request that comes
 * during a move waits in its file. */
#ifndef VP_RUN_REBALANCE_H
#define VP_RUN_REBALANCE_H

#include "config/config.h"
#include "run/notice.h"
#include "runtime/trainer/migrate.h"

struct vp_rebalance;

struct vp_rebalance_config {
    const struct vp_config *config;
    const struct vp_train_config *train; /* its plan is the first one */
    struct vp_world *world;              /* of several processes, or NULL */
    const char *folder;                  /* of the run */
    int64_t last_step;                   /* that the run will make */
    vp_notice_fn notice;                 /* one line for every decision */
    void *ctx;
};

/* The configuration is copied, what it points to is borrowed. */
enum vp_status vp_rebalance_create(const struct vp_rebalance_config *config,
                                   struct vp_rebalance **out,
                                   struct vp_err *err);
/* Waits for the thread that prepares a move; `rebalance` may be NULL. Before the trainer
 * is freed. */
void vp_rebalance_free(struct vp_rebalance *rebalance);

/* In the lead of several processes, whose run has ended: a trainer that was prepared
 * and did not take over yet is freed by all of them. NULL is allowed. */
void vp_rebalance_give_up(struct vp_rebalance *rebalance);

/* After a step, on the thread that runs the trainer, which trains on. Returns
 * true if a plan is ready: the trainer should come to rest. */
bool vp_rebalance_step(struct vp_rebalance *rebalance,
                       struct vp_trainer *trainer,
                       const struct vp_step_report *report);

/* A move that was made. */
struct vp_rebalance_move {
    const struct vp_plan *plan; /* in force now; lives as long as `rebalance` */
    struct vp_migration migration;
    const char *why;         /* "asked for", "stages out of balance" */
    struct vp_trainer *left; /* the one before, to be freed */
};

/* The trainer is idle. If a plan is ready, the run moves to it: returns true, and
 * `*trainer` is then another one. A plan that is refused now is answered, and the
 * run goes on as before. */
bool vp_rebalance_move(struct vp_rebalance *rebalance,
                       struct vp_trainer **trainer,
                       struct vp_rebalance_move *move_out);
/* In a process that follows the lead, when vp_trainer_follow() says that the lead
 * prepares a move: does so, too, while the trainer trains on. */
void vp_rebalance_prepare(struct vp_rebalance *rebalance,
                          struct vp_trainer *trainer);
/* In such a process, when the lead moves: the same as vp_rebalance_move(). */
bool vp_rebalance_follow(struct vp_rebalance *rebalance,
                         struct vp_trainer **trainer,
                         struct vp_rebalance_move *move_out);
/* Reports the move that was made: `line` goes to the notice and, if the move was
 * requested, to the reply file. */
void vp_rebalance_tell(struct vp_rebalance *rebalance, const char *line);

#endif
