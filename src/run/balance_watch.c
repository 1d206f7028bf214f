/* Decides when a run should move to another partition: windows of measured
 * stage times, a search, and a comparison of the last move with its
 * forecast. */
#include "run/balance_watch.h"

#include <math.h>
#include <string.h>

enum {
    WINDOW = 16,     /* minibatches of a window */
    MOST_RECENT = 6, /* largest n_recent: 2^6 windows until the next move */
    CALM = 16,       /* windows in a row without a gain that cancel one move */
};
#define LEAST_GAIN 0.05 /* smallest gain that is worth a move */
#define QUIET 0.025     /* change of a stage's time that starts a new search */
#define COST_STEPS 2.0  /* cost of a move, in steps */

/* Computes the seconds of each stage from the window's begin to `stats`. */
static enum vp_status measure(const struct vp_balance_watch *watch,
                              const struct vp_plan *plan,
                              const struct vp_schedule *schedule,
                              const struct vp_stage_stats *stats,
                              struct vp_stage_seconds *out, struct vp_err *err)
{
    bool stream = vp_generator_find(schedule->name)->stream;

    if (!plan->partition)
        return vp_err_set(err, VP_ERR_INVALID,
                          "one stage has the whole model; there is nothing to "
                          "balance");
    for (int s = 0; s < schedule->n_stages; s++) {
        out[s] = vp_imbalance_measure(&watch->begin[s], &stats[s],
                                      schedule->stages[s].n_replicas);
        if (!(out[s].f + out[s].b > 0.0))
            return vp_err_set(err, VP_ERR_INVALID,
                              "stage %d was not measured yet; ask again later",
                              s);
        if (!stream) /* one update per group of minibatches */
            out[s].update *= schedule->n_mb;
    }
    return VP_OK;
}

enum vp_status vp_balance_watch_find(const struct vp_balance_watch *watch,
                                     const struct vp_cost_table *costs,
                                     const struct vp_plan *plan,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_stats *stats,
                                     struct vp_imbalance *out,
                                     struct vp_err *err)
{
    struct vp_stage_seconds stages[VP_MAX_STAGES];

    VP_TRY(measure(watch, plan, schedule, stats, stages, err));
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

/* Returns true if all stages take the time they took when the last search found
 * nothing, so that no new search is needed. */
static bool is_quiet(const struct vp_balance_watch *watch,
                     const struct vp_stage_seconds *stages, int n_stages)
{
    for (int s = 0; s < n_stages; s++)
        if (fabs(stages[s].f + stages[s].b - watch->quiet[s]) >
            QUIET * watch->quiet[s])
            return false;
    return true;
}

/* Returns true if there is a partition whose gain over the `n_left` steps
 * exceeds the cost of a move. */
static bool find_worth(struct vp_balance_watch *watch,
                       const struct vp_cost_table *costs,
                       const struct vp_plan *plan,
                       const struct vp_schedule *schedule,
                       const struct vp_stage_stats *stats, int64_t n_left,
                       struct vp_imbalance *found)
{
    struct vp_stage_seconds stages[VP_MAX_STAGES];
    double share, gain = 0.0;

    if (measure(watch, plan, schedule, stats, stages, NULL) != VP_OK ||
        is_quiet(watch, stages, schedule->n_stages))
        return false;
    if (vp_imbalance_estimate(costs, plan, schedule, stages, &share) == VP_OK &&
        share >= watch->bar &&
        vp_imbalance_find(costs, plan, stages, found, NULL) == VP_OK &&
        !found->same)
        gain = 1.0 - found->then / found->now;
    for (int s = 0; s < schedule->n_stages; s++)
        watch->quiet[s] = gain < watch->bar ? stages[s].f + stages[s].b : 0.0;
    return gain >= watch->bar && gain * (double)n_left > COST_STEPS;
}

/* Compares the last move with its forecast. Returns true if steps were shorter
 * before that move: `found` then holds the earlier partition. */
static bool judge_last(struct vp_balance_watch *watch, int n_stages,
                       struct vp_imbalance *found)
{
    double now = watch->seconds / (watch->n_steps - 1);
    bool slower = now > watch->before;

    if (watch->before == 0.0)
        return false;
    if (watch->before - now < 0.5 * (watch->before - watch->hoped))
        watch->bar *= 2.0;
    else
        watch->bar = LEAST_GAIN;
    *found = (struct vp_imbalance){ .now = now, .then = watch->before };
    memcpy(found->partition, watch->partition,
           (size_t)n_stages * sizeof(*found->partition));
    watch->before = 0.0;
    return slower;
}

/* Records the move for judge_last(). */
static void note_move(struct vp_balance_watch *watch,
                      const struct vp_plan *plan, int n_stages,
                      const struct vp_imbalance *found)
{
    watch->before = watch->seconds / (watch->n_steps - 1);
    watch->hoped = watch->before * found->then / found->now;
    memcpy(watch->partition, plan->partition,
           (size_t)n_stages * sizeof(*watch->partition));
}

/* Counts the window. Returns true if enough windows in a row were worth a move:
 * 2, or 2^n_recent after several moves. */
static bool is_sure(struct vp_balance_watch *watch, bool worth)
{
    watch->n_worth = worth ? watch->n_worth + 1 : 0;
    watch->n_calm = worth ? 0 : watch->n_calm + 1;
    if (watch->n_calm == CALM) {
        watch->n_calm = 0;
        watch->n_recent -= watch->n_recent > 0;
    }
    return watch->n_worth >= (watch->n_recent < 2 ? 2 : 1 << watch->n_recent);
}

bool vp_balance_watch_step(struct vp_balance_watch *watch,
                           const struct vp_cost_table *costs,
                           const struct vp_plan *plan,
                           const struct vp_schedule *schedule,
                           const struct vp_stage_stats *stats,
                           const struct vp_step_report *report,
                           int64_t last_step, struct vp_imbalance *found)
{
    bool moves;

    if (watch->bar == 0.0)
        watch->bar = LEAST_GAIN;
    if (watch->n_steps == 0) { /* the first step of a plan fills caches */
        restart(watch, stats, schedule->n_stages, report->minibatch);
        return false;
    }
    watch->seconds += report->seconds;
    watch->n_steps++;
    if (report->minibatch - watch->begin_minibatch < WINDOW)
        return false;
    moves = judge_last(watch, schedule->n_stages, found);
    if (!moves) {
        moves = is_sure(watch, find_worth(watch, costs, plan, schedule, stats,
                                          last_step - report->step, found));
        if (moves)
            note_move(watch, plan, schedule->n_stages, found);
    }
    restart(watch, stats, schedule->n_stages, report->minibatch);
    return moves;
}

void vp_balance_watch_moved(struct vp_balance_watch *watch, bool asked)
{
    /* The counters of a new trainer begin at 0. */
    memset(watch->begin, 0, sizeof(watch->begin));
    watch->n_steps = watch->n_worth = watch->n_calm = 0;
    if (asked && watch->n_recent < MOST_RECENT)
        watch->n_recent++;
    memset(watch->quiet, 0, sizeof(watch->quiet));
    if (!asked)
        watch->before = 0.0;
}

void vp_balance_watch_refused(struct vp_balance_watch *watch)
{
    watch->n_steps = 0;
    watch->before = 0.0;
    watch->bar *= 2.0;
}
