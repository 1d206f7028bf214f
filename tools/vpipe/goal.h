/* The held-out loss that --require-loss-below asks a run to reach. */
#ifndef VP_TOOLS_GOAL_H
#define VP_TOOLS_GOAL_H

#include "progress.h"

struct goal {
    const char *text; /* as the user wrote it; NULL: nothing is required */
    double limit;     /* the same; NaN: the best guess without context */
};

/* Reads the option's value. Returns TOOL_OK, or TOOL_USAGE after a line on
 * stderr. */
int goal_set(struct goal *goal, const char *value);

/* For a run that prints nothing: the losses are still kept in `progress`. */
void goal_keep_start(void *progress, const struct vp_run_summary *summary);
void goal_keep_eval(void *progress, int64_t step, int64_t n_batches,
                    double loss);

/* VP_ERR_INVALID if the configuration never evaluates a held-out loss. */
enum vp_status goal_check_config(const struct goal *goal,
                                 const struct vp_config *config,
                                 struct vp_err *err);
/* After the run: VP_ERR_UNMET unless the last held-out loss is below the limit.
 * VP_OK in a process that was not told of the losses, as it does not lead. */
enum vp_status goal_check(const struct goal *goal,
                          const struct progress *progress, struct vp_err *err);

#endif
