/* Training as a sequence of updates. A trainer owns the schedule, the ranks
 * that walk its action lists, and their memory. One stage on one rank is the
 * smallest pipeline, and runs the same code. */
#ifndef VP_RUNTIME_TRAINER_TRAINER_H
#define VP_RUNTIME_TRAINER_TRAINER_H

#include "plan/price.h"
#include "runtime/report.h"
#include "runtime/state.h"
#include "runtime/train_config.h"
#include "trace/trace.h"

#include <signal.h>

/* Called for every step, in order, from the thread that runs the trainer.
 * Returning false ends the run after the steps already begun. */
typedef bool (*vp_step_fn)(void *ctx, const struct vp_step_report *report);

struct vp_trainer;

/* Makes and proves the schedule, plans, opens devices and allocates; refuses a
 * plan that does not fit, see vp_fit_lacks(). In a world of several processes
 * each one creates a trainer, and vp_world_agree() decides. */
enum vp_status vp_trainer_create(const struct vp_train_config *config,
                                 struct vp_trainer **out, struct vp_err *err);
/* False, with nothing freed, if a rank did not come back: its thread still uses
 * all that the trainer owns and borrows, and the process must end. The same
 * goes for a world of several processes that failed. */
bool vp_trainer_free(struct vp_trainer *trainer);
/* Per stage: what was planned, and is allocated. */
const struct vp_stage_price *vp_trainer_prices(
    const struct vp_trainer *trainer);
int vp_trainer_n_stages(const struct vp_trainer *trainer);
int vp_trainer_n_blocks(const struct vp_trainer *trainer, int stage);

/* Several processes: is this the one that runs, evaluates, saves and reads
 * what there is to read? All others follow it until it is freed. */
bool vp_trainer_is_lead(const struct vp_trainer *trainer);
enum vp_followed {
    VP_FOLLOWED_END,     /* the lead has freed its trainer */
    VP_FOLLOWED_PREPARE, /* the lead creates the next trainer; see migrate.h */
    VP_FOLLOWED_MOVE,    /* that one takes over, or is dropped */
};

/* `*stop` (NULL: never) asks for the end of the run, soon; the lead sees that
 * one of the others was asked. Returns when the lead does one of the above. */
enum vp_status vp_trainer_follow(struct vp_trainer *trainer,
                                 const volatile sig_atomic_t *stop,
                                 enum vp_followed *out, struct vp_err *err);
bool vp_trainer_stopped(const struct vp_trainer *trainer);

/* Runs `n` steps; the pipe is empty afterwards, but goes on as if it had not
 * been: two runs are one. Steady steps allocate nothing. `fn` may be NULL. */
enum vp_status vp_trainer_run(struct vp_trainer *trainer, int64_t n,
                              vp_step_fn fn, void *ctx, struct vp_err *err);
/* One step. */
enum vp_status vp_trainer_step(struct vp_trainer *trainer,
                               struct vp_step_report *report_out,
                               struct vp_err *err);
/* Whether what is done every `every` steps (0: never) is done after `step`: at
 * multiples of `every`; in asynchronous training at the first step from there on
 * that ends a round of all stages, as replicas and macrobatches make rounds of
 * several minibatches. */
bool vp_trainer_is_due(const struct vp_trainer *trainer, int64_t every,
                       int64_t step);
/* The first such step after the last one that was run; `every` > 0. A run that
 * ends there drops no minibatch. */
int64_t vp_trainer_next_due(const struct vp_trainer *trainer, int64_t every);
/* Mean loss over the predictions of `n_batches` held-out batches on the newest
 * weights, dropout off. Training goes on afterwards as if there had been no
 * evaluation. */
enum vp_status vp_trainer_eval(struct vp_trainer *trainer, int64_t n_batches,
                               double *loss_out, struct vp_err *err);
/* The same in parts: adds batches [first, first + n) to `*score`. */
enum vp_status vp_trainer_eval_part(struct vp_trainer *trainer, int64_t first,
                                    int64_t n, struct vp_score *score,
                                    struct vp_err *err);

/* All items of the state that this process has, stage by stage; their number,
 * or -1 without memory. The caller frees the list. */
int vp_trainer_state(const struct vp_trainer *trainer,
                     struct vp_state_item **items_out);
/* As of the step reported last; also inside of vp_step_fn. */
struct vp_progress vp_trainer_progress(const struct vp_trainer *trainer);
/* The counts of every block of the model, of a run that stands at `progress`. */
void vp_trainer_block_counts(const struct vp_trainer *trainer,
                             const struct vp_progress *progress,
                             struct vp_block_count *counts_out);
/* Fills all buffers of the saver, in an idle trainer. */
enum vp_status vp_trainer_save(struct vp_trainer *trainer,
                               const struct vp_saver *saver,
                               struct vp_err *err);

/* Per stage; also inside of vp_step_fn, where it allocates nothing. */
const struct vp_stage_stats *vp_trainer_stats(struct vp_trainer *trainer);
/* Of stage number `i` of a rank alone; false past its last one. */
bool vp_trainer_rank_stats(const struct vp_trainer *trainer, int rank, int i,
                           int *stage_out, struct vp_stage_stats *out);
/* The schedule of a synchronous group, or a piece of a stream. */
const struct vp_schedule *vp_trainer_schedule(const struct vp_trainer *trainer);
/* The lists that it was given, as text; NULL: a generator wrote them. */
const char *vp_trainer_schedule_text(const struct vp_trainer *trainer);
/* The last actions of every rank, of an idle trainer. Release with
 * vp_trace_release(). */
enum vp_status vp_trainer_trace(struct vp_trainer *trainer, const char *name,
                                struct vp_trace *out, struct vp_err *err);

/* The newest weights of a parameter as a whole, of an idle trainer; VP_ERR_INVALID if
 * no stage has it. `replica` of its stage: they are equal. */
enum vp_status vp_trainer_get_weights(const struct vp_trainer *trainer,
                                      vp_par par, int replica, float *out);

#endif
