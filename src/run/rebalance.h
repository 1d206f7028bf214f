/* Re-balancing of a live run: accepts requests for another plan, decides when
 * the run moves to it, and reports the outcome.
 *
 *   step    step    step    step |move| step    step
 *     ^ start: a request in the run folder or, with key `rebalance`, stages
 *     |        whose measured work is out of balance
 *     +-- the next trainer is prepared on a thread of its own --^ ready
 *
 * See runtime/trainer/migrate.h for the move. There is one move at a time: a
 * request that arrives during a move stays in its file. */
#ifndef VP_RUN_REBALANCE_H
#define VP_RUN_REBALANCE_H

#include "config/config.h"
#include "run/notice.h"
#include "runtime/trainer/migrate.h"

struct vp_rebalance;

struct vp_rebalance_config {
    const struct vp_config *config;
    const struct vp_train_config *train; /* with the first plan of the run */
    struct vp_world *world;              /* several processes; NULL: one */
    const char *folder;                  /* run folder */
    int64_t last_step;                   /* the run ends with this step */
    vp_notice_fn notice;                 /* gets a line for every decision */
    void *ctx;
};

/* Copies `config`; borrows what it points to. */
enum vp_status vp_rebalance_create(const struct vp_rebalance_config *config,
                                   struct vp_rebalance **out,
                                   struct vp_err *err);
/* Waits for the thread that prepares a move. To be called before the trainer is
 * freed; `rebalance` may be NULL. */
void vp_rebalance_free(struct vp_rebalance *rebalance);

/* For the lead of several processes, after its run has ended: all processes
 * free a trainer that was prepared and has not taken over yet. `rebalance` may
 * be NULL. */
void vp_rebalance_give_up(struct vp_rebalance *rebalance);

/* To be called after a step, on the thread that runs the trainer; training
 * continues. Returns true if a plan is ready: the caller should stop the
 * trainer and call vp_rebalance_move(). */
bool vp_rebalance_step(struct vp_rebalance *rebalance,
                       struct vp_trainer *trainer,
                       const struct vp_step_report *report);

/* A move that was made. */
struct vp_rebalance_move {
    const struct vp_plan *plan; /* current plan; lives as long as `rebalance` */
    struct vp_migration migration;
    const char *why;         /* "asked for", "stages out of balance" */
    struct vp_trainer *left; /* the trainer before, to be freed by the caller */
};

/* To be called while the trainer is idle. If a plan is ready, moves the run to
 * it: returns true, and `*trainer` is replaced. If the plan is refused now,
 * reports that, and the run continues with its old plan. */
bool vp_rebalance_move(struct vp_rebalance *rebalance,
                       struct vp_trainer **trainer,
                       struct vp_rebalance_move *move_out);
/* For processes other than the lead, when vp_trainer_follow() reports that the
 * lead prepares a move: prepares it, too, while training continues. */
void vp_rebalance_prepare(struct vp_rebalance *rebalance,
                          struct vp_trainer *trainer);
/* For processes other than the lead, when the lead moves; see
 * vp_rebalance_move(). */
bool vp_rebalance_follow(struct vp_rebalance *rebalance,
                         struct vp_trainer **trainer,
                         struct vp_rebalance_move *move_out);
/* Reports the move that was made: passes `line` to `notice` and, if the move
 * was requested, writes it to the reply file. */
void vp_rebalance_tell(struct vp_rebalance *rebalance, const char *line);

#endif
