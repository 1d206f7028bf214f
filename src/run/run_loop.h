/* The loop of a run that is set up. */
#ifndef VP_RUN_RUN_LOOP_H
#define VP_RUN_RUN_LOOP_H

#include "run/run_state.h"

/* Reads reports, decides when to evaluate and to save. */
enum vp_status vp_run_lead(struct vp_run_state *run, struct vp_err *err);
/* The same in parts: before the first step; steps up to number `end`; and what is
 * saved and written at the end. VP_ERR_INTERRUPTED: it was asked to stop. */
enum vp_status vp_run_begin(struct vp_run_state *run, struct vp_err *err);
enum vp_status vp_run_to(struct vp_run_state *run, int64_t end,
                         struct vp_err *err);
enum vp_status vp_run_finish(struct vp_run_state *run, struct vp_err *err);
/* Saves the idle trainer in the folder of the run. */
enum vp_status vp_run_save(struct vp_run_state *run, struct vp_err *err);
/* Evaluates `n` held-out batches, as the keys eval_every and eval_batches do; all
 * there are if there are fewer. The loss is run->eval_loss. */
enum vp_status vp_run_evaluate(struct vp_run_state *run, int64_t n,
                               struct vp_err *err);
/* The other processes of a run: until the lead ends it. */
enum vp_status vp_run_follow(struct vp_run_state *run, struct vp_err *err);

#endif
