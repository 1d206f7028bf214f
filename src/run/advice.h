/* What would make a plan fit that does not, and what recomputation saves. Found
 * by planning again with another value, never guessed. */
#ifndef VP_RUN_ADVICE_H
#define VP_RUN_ADVICE_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/train_config.h"

/* Adds the remedy to the message about a trainer that was refused because its
 * plan lacks something (vp_fit_lacks()): values of batch_size,
 * recompute_ratio, stages, threads_per_stage and, where memory of the host is
 * lacking, swap_ratio, with which it fits, one key at a time. Messages about something else stay as they are. */
void vp_advice_remedy(const struct vp_config *config,
                      const struct vp_train_config *train, struct vp_err *err);

/* The same for a device that could not give what was planned: how much it can is
 * not known, so what is named makes the largest stage smaller. */
void vp_advice_less(const struct vp_config *config,
                    const struct vp_train_config *train, struct vp_err *err);

/* Adds the command that makes a plan which fits, to the message about a new run
 * that was refused because of memory_limit; nothing if no plan fits. */
void vp_advice_plan(const struct vp_config *config,
                    const struct vp_train_config *train, struct vp_err *err);

/* The same for `st`, with which the plan of a run was refused: adds the remedy,
 * and before the message where the key to blame stands. Returns the status of
 * the run. */
enum vp_status vp_advice_explain(const struct vp_config *config,
                                 const struct vp_train_config *train,
                                 enum vp_status st, struct vp_err *err);

/* Writes a line about the stages whose recompute_ratio saves no memory; false if
 * there are none, or a plan names what is recomputed. `stages` as planned. */
bool vp_advice_ratios(const struct vp_config *config,
                      const struct vp_train_config *train,
                      const struct vp_run_stage *stages, struct vp_err *line);

#endif
