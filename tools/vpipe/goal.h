/* --require-loss-below: the limit for the last held-out loss of a run. */
#ifndef VP_TOOLS_GOAL_H
#define VP_TOOLS_GOAL_H

#include "progress.h"

struct goal {
    const char *text; /* value of the option; NULL: not given */
    double limit;     /* its number; NaN: unigram, the guess without context */
};

/* Reads the option's value. Returns TOOL_OK, or TOOL_USAGE after a line on
 * stderr. */
int goal_set(struct goal *goal, const char *value);

/* Store the losses of a run in `progress`, also if it prints nothing. */
void goal_keep_start(void *progress, const struct vp_run_summary *summary);
void goal_keep_eval(void *progress, int64_t step, int64_t n_batches,
                    double loss);

/* Returns VP_ERR_INVALID if the option is given and the configuration never
 * evaluates a held-out loss. */
enum vp_status goal_check_config(const struct goal *goal,
                                 const struct vp_config *config,
                                 struct vp_err *err);
/* Called after the run. Returns VP_ERR_UNMET unless the last held-out loss is
 * below the limit. Returns VP_OK if the option is not given, and in processes
 * other than the lead, which get no losses. */
enum vp_status goal_check(const struct goal *goal,
                          const struct progress *progress, struct vp_err *err);

#endif
