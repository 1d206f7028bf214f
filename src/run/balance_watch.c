#include "run/balance_watch.h"

#include <string.h>

/* Minibatches of a window; the least gain that is worth a move, and the highest
 * bar; steps that a move costs. */
enum { WINDOW = 16 };
#define LEAST_GAIN 0.08
#define MOST_BAR 0.64
#define COST_STEPS 2.0

enum vp_status vp_balance_watch_find(const struct vp_balance_watch *watch,
                                     const struct vp_cost_table *costs,
                                     const struct vp_plan *plan,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_stats *stats,
                                     struct vp_imbalance *out,
                                     struct vp_err *err)
{
    bool stream = vp_generator_find(schedule->name)->stream;
    struct vp_stage_seconds stages[VP_MAX_STAGES];

    if (!plan->partition)
        return vp_err_set(err, VP_ERR_INVALID,
                          "one stage has the whole model; there is nothing to "
                          "balance");
    for (int s = 0; s < schedule->n_stages; s++) {
        stages[s] = vp_imbalance_measure(&watch->begin[s], &stats[s],
                                         schedule->stages[s].n_replicas);
        if (!(stages[s].f + stages[s].b > 0.0))
            return vp_err_set(err, VP_ERR_INVALID,
                              "stage %d was not measured yet; ask again later",
                              s);
        if (!stream) /* a group has one update */
            stages[s].update *= schedule->n_mb;
    }
    return vp_imbalance_find(costs, plan, stages, out, err);
}

static void restart(struct vp_balance_watch *watch,
                    const struct vp_stage_stats *stats, int n_stages,
                    int64_t minibatch)
{
    memcpy(watch->begin, stats, (size_t)n_stages * sizeof(*stats));
    watch->begin_minibatch = minibatch;
    watch->seconds = 0.0;
    watch->n_steps = 1;
}

static bool is_worth(const struct vp_balance_watch *watch,
                     const struct vp_imbalance *found, int64_t n_left)
{
    double gain = 1.0 - found->then / found->now;

    return !found->same && gain >= watch->bar &&
           gain * (double)n_left > COST_STEPS;
}

/* Whether the last move brought half of what it promised. */
static void judge_last(struct vp_balance_watch *watch)
{
    double now = watch->seconds / (watch->n_steps - 1);

    if (watch->before > 0.0 &&
        watch->before - now < 0.5 * (watch->before - watch->hoped) &&
        watch->bar < MOST_BAR)
        watch->bar *= 2.0;
    watch->before = 0.0;
}

bool vp_balance_watch_step(struct vp_balance_watch *watch,
                           const struct vp_cost_table *costs,
                           const struct vp_plan *plan,
                           const struct vp_schedule *schedule,
                           const struct vp_stage_stats *stats,
                           const struct vp_step_report *report,
                           int64_t last_step, struct vp_imbalance *found)
{
    bool worth;

    if (watch->bar == 0.0)
        watch->bar = LEAST_GAIN;
    if (watch->n_steps == 0) { /* the first step of a plan is a cold one */
        restart(watch, stats, schedule->n_stages, report->minibatch);
        return false;
    }
    watch->seconds += report->seconds;
    watch->n_steps++;
    if (report->minibatch - watch->begin_minibatch < WINDOW)
        return false;
    judge_last(watch);
    worth = vp_balance_watch_find(watch, costs, plan, schedule, stats, found,
                                  NULL) == VP_OK &&
            is_worth(watch, found, last_step - report->step);
    if (worth) {
        watch->before = watch->seconds / (watch->n_steps - 1);
        watch->hoped = watch->before * found->then / found->now;
    }
    restart(watch, stats, schedule->n_stages, report->minibatch);
    return worth;
}

void vp_balance_watch_moved(struct vp_balance_watch *watch, bool refused)
{
    watch->n_steps = 0;
    if (!refused) /* the next trainer counts from 0 */
        memset(watch->begin, 0, sizeof(watch->begin));
    if (refused)
        watch->before = 0.0;
}
