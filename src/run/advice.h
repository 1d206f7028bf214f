/* Advice for a plan that does not fit: key values with which it would fit, and
 * recompute_ratio values that save no memory. Each value is found by planning
 * again with it, never guessed. */
#ifndef VP_RUN_ADVICE_H
#define VP_RUN_ADVICE_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/train_config.h"

/* Appends the remedy to `err`, the message about a trainer that was refused
 * because its plan needs more than there is (vp_fit_lacks()): values of
 * batch_size, recompute_ratio, stages, threads_per_stage and, where the host's
 * memory is too small, swap_ratio, each of which alone makes the plan fit.
 * Leaves messages about other errors unchanged. */
void vp_advice_remedy(const struct vp_config *config,
                      const struct vp_train_config *train, struct vp_err *err);

/* Appends the remedy to `err`, the message about a device that could not
 * allocate what was planned. The free memory of the device is not known, so the
 * remedies are keys that make the largest stage smaller. */
void vp_advice_less(const struct vp_config *config,
                    const struct vp_train_config *train, struct vp_err *err);

/* Appends the `vpipe plan` command that makes a plan which fits to `err`, the
 * message about a new run that was refused because of memory_limit. Appends
 * nothing if no plan fits. */
void vp_advice_plan(const struct vp_config *config,
                    const struct vp_train_config *train, struct vp_err *err);

/* Completes `err` after the plan of a run was refused with `st`: appends a
 * remedy (the functions above) and prepends the place of the key to blame.
 * Returns the status that the run should return. */
enum vp_status vp_advice_explain(const struct vp_config *config,
                                 const struct vp_train_config *train,
                                 enum vp_status st, struct vp_err *err);

/* Writes one line about the stages whose recompute_ratio saves no memory to
 * `line`. Returns false if there are none, or if a plan lists what is
 * recomputed. `stages` has an entry per stage of the plan of `train`. */
bool vp_advice_ratios(const struct vp_config *config,
                      const struct vp_train_config *train,
                      const struct vp_run_stage *stages, struct vp_err *line);

#endif
