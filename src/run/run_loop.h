/* The main loop of a run that is set up. */
#ifndef VP_RUN_RUN_LOOP_H
#define VP_RUN_RUN_LOOP_H

#include "run/run_state.h"

/* Runs all steps in the lead: handles reports, evaluates and saves when due. */
enum vp_status vp_run_lead(struct vp_run_state *run, struct vp_err *err);
/* The parts of vp_run_lead(): before the first step; steps up to step `end`;
 * saving and reporting at the end. VP_ERR_INTERRUPTED: a stop signal came. */
enum vp_status vp_run_begin(struct vp_run_state *run, struct vp_err *err);
enum vp_status vp_run_to(struct vp_run_state *run, int64_t end,
                         struct vp_err *err);
enum vp_status vp_run_finish(struct vp_run_state *run, struct vp_err *err);
/* Saves the trainer, which is idle, in the run folder. */
enum vp_status vp_run_save(struct vp_run_state *run, struct vp_err *err);
/* Evaluates `n` held-out batches, or all if there are fewer, and reports the
 * loss as evaluations of key eval_every do. Sets run->eval_loss. */
enum vp_status vp_run_evaluate(struct vp_run_state *run, int64_t n,
                               struct vp_err *err);
/* For processes other than the lead: follows the lead until it ends the run. */
enum vp_status vp_run_follow(struct vp_run_state *run, struct vp_err *err);

#endif
