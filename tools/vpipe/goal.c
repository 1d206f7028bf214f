/* Parses and checks --require-loss-below. */
#include "goal.h"

#include "base/value.h"
#include "tool.h"

#include <math.h>
#include <string.h>

int goal_set(struct goal *goal, const char *value)
{
    *goal = (struct goal){ .text = value, .limit = NAN };
    if (strcmp(value, "unigram") == 0 ||
        (vp_text_to_real(value, &goal->limit) && goal->limit > 0.0))
        return TOOL_OK;
    return tool_usage_error("vpipe train: option '--require-loss-below' must "
                            "be a number above 0 or unigram, not '%.48s'; "
                            "write for example '--require-loss-below unigram'",
                            value);
}

void goal_keep_start(void *progress, const struct vp_run_summary *summary)
{
    ((struct progress *)progress)->unigram_loss = summary->unigram_loss;
}

void goal_keep_eval(void *progress, int64_t step, int64_t n_batches,
                    double loss)
{
    (void)step;
    (void)n_batches;
    ((struct progress *)progress)->eval_loss = loss;
}

enum vp_status goal_check_config(const struct goal *goal,
                                 const struct vp_config *config,
                                 struct vp_err *err)
{
    if (!goal->text || config->eval_every > 0 || config->forward_only)
        return VP_OK;
    return vp_err_set(err, VP_ERR_INVALID,
                      "vpipe train: option '--require-loss-below' compares the "
                      "held-out loss, but eval_every is 0; set eval_every");
}

enum vp_status goal_check(const struct goal *goal,
                          const struct progress *progress, struct vp_err *err)
{
    bool unigram = isnan(goal->limit);
    double limit = unigram ? progress->unigram_loss : goal->limit;

    if (!goal->text || isnan(progress->unigram_loss) ||
        progress->eval_loss < limit)
        return VP_OK;
    if (!isfinite(progress->eval_loss))
        return vp_err_set(err, VP_ERR_UNMET,
                          "there is no held-out loss for --require-loss-below: "
                          "the run ended before its first evaluation; lower "
                          "eval_every or raise total_steps");
    return vp_err_set(err, VP_ERR_UNMET,
                      "held-out loss %.4f is not below %.4f%s, as "
                      "--require-loss-below requires; raise total_steps or "
                      "change learning_rate",
                      progress->eval_loss, limit,
                      unigram ? ", the best guess without context" : "");
}
