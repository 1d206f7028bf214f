/* Training as a sequence of updates. A trainer owns the schedule, the ranks
 * that run its action lists, and their memory. One stage on one rank is the
 * smallest pipeline and runs the same code. */
#ifndef VP_RUNTIME_TRAINER_TRAINER_H
#define VP_RUNTIME_TRAINER_TRAINER_H

#include "plan/price.h"
#include "runtime/report.h"
#include "runtime/state.h"
#include "runtime/train_config.h"
#include "trace/trace.h"

#include <signal.h>

/* Called for every step, in order, on the thread that runs the trainer. Return
 * false to end the run after the steps that have begun. */
typedef bool (*vp_step_fn)(void *ctx, const struct vp_step_report *report);

struct vp_trainer;

/* Makes and proves the schedule, plans, opens devices and allocates; refuses a
 * plan that does not fit, see vp_fit_lacks(). In a world of several processes
 * every process creates a trainer, and all fail if one does. */
enum vp_status vp_trainer_create(const struct vp_train_config *config,
                                 struct vp_trainer **out, struct vp_err *err);
/* Returns false and frees nothing if a rank thread did not return, or if a
 * world of several processes failed: memory of the trainer is still in use, and
 * the process must end. */
bool vp_trainer_free(struct vp_trainer *trainer);
/* Returns the planned and allocated memory per stage. Borrowed. */
const struct vp_stage_price *vp_trainer_prices(
    const struct vp_trainer *trainer);
int vp_trainer_n_stages(const struct vp_trainer *trainer);
int vp_trainer_n_blocks(const struct vp_trainer *trainer, int stage);

/* Returns true in the process that runs, evaluates, saves and reports. All
 * other processes call vp_trainer_follow() until the lead frees its trainer. */
bool vp_trainer_is_lead(const struct vp_trainer *trainer);
enum vp_followed {
    VP_FOLLOWED_END,     /* the lead has freed its trainer */
    VP_FOLLOWED_PREPARE, /* the lead creates the next trainer; see migrate.h */
    VP_FOLLOWED_MOVE,    /* the next trainer takes over, or is dropped */
};

/* Runs orders of the lead until one of the above. `*stop` (NULL: never)
 * requests the end of the run; vp_trainer_stopped() then returns true in the
 * lead. */
enum vp_status vp_trainer_follow(struct vp_trainer *trainer,
                                 const volatile sig_atomic_t *stop,
                                 enum vp_followed *out, struct vp_err *err);
bool vp_trainer_stopped(const struct vp_trainer *trainer);

/* Runs `n` steps. The pipeline is empty afterwards, but two runs give the same
 * result as one long run. Steps allocate nothing. `fn` may be NULL. */
enum vp_status vp_trainer_run(struct vp_trainer *trainer, int64_t n,
                              vp_step_fn fn, void *ctx, struct vp_err *err);
/* Runs one step. */
enum vp_status vp_trainer_step(struct vp_trainer *trainer,
                               struct vp_step_report *report_out,
                               struct vp_err *err);
/* Returns true if an activity that is due every `every` steps (0: never) is due
 * after `step`. That is at multiples of `every`; in asynchronous training at
 * the first step from there on that ends a round of all stages, because
 * replicas and macrobatches make rounds of several minibatches. */
bool vp_trainer_is_due(const struct vp_trainer *trainer, int64_t every,
                       int64_t step);
/* Returns the first such step after the last step that was run; `every` > 0. A
 * run that ends there drops no minibatch. */
int64_t vp_trainer_next_due(const struct vp_trainer *trainer, int64_t every);
/* Computes the mean loss over the predictions of `n_batches` held-out batches
 * with the newest weights and without dropout. Does not affect training. */
enum vp_status vp_trainer_eval(struct vp_trainer *trainer, int64_t n_batches,
                               double *loss_out, struct vp_err *err);
/* Adds batches [first, first + n) to `*score`. */
enum vp_status vp_trainer_eval_part(struct vp_trainer *trainer, int64_t first,
                                    int64_t n, struct vp_score *score,
                                    struct vp_err *err);

/* Lists all items of the state that this process saves, stage by stage. Returns
 * their number, -1 if memory is exhausted. The caller frees the list. */
int vp_trainer_state(const struct vp_trainer *trainer,
                     struct vp_state_item **items_out);
/* Returns the position of the run after the last reported step. Allowed inside
 * of vp_step_fn. */
struct vp_progress vp_trainer_progress(const struct vp_trainer *trainer);
/* Returns the counts of every block of the model for a run at `progress`. */
void vp_trainer_block_counts(const struct vp_trainer *trainer,
                             const struct vp_progress *progress,
                             struct vp_block_count *counts_out);
/* Fills all buffers of the saver. The trainer must be idle. */
enum vp_status vp_trainer_save(struct vp_trainer *trainer,
                               const struct vp_saver *saver,
                               struct vp_err *err);

/* Returns sums per stage, owned by the trainer. Allowed inside of vp_step_fn;
 * allocates nothing. */
const struct vp_stage_stats *vp_trainer_stats(struct vp_trainer *trainer);
/* Sets `out` to the sums of stage number `i` of a rank. Returns false if the
 * rank has no more stages. */
bool vp_trainer_rank_stats(const struct vp_trainer *trainer, int rank, int i,
                           int *stage_out, struct vp_stage_stats *out);
/* Returns the schedule of a synchronous round, or the plan of a stream. */
const struct vp_schedule *vp_trainer_schedule(const struct vp_trainer *trainer);
/* Returns the configured action lists as text; NULL: a generator made them. */
const char *vp_trainer_schedule_text(const struct vp_trainer *trainer);
/* Collects the last actions of every rank. The trainer must be idle. Release
 * with vp_trace_release(). */
enum vp_status vp_trainer_trace(struct vp_trainer *trainer, const char *name,
                                struct vp_trace *out, struct vp_err *err);

/* Copies the newest weights of a whole parameter from replica `replica` of its
 * stage; all replicas are equal. Returns VP_ERR_INVALID if no stage has it. The
 * trainer must be idle. */
enum vp_status vp_trainer_get_weights(const struct vp_trainer *trainer,
                                      vp_par par, int replica, float *out);

#endif
