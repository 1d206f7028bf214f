/* Watches the measured time of stages during a run, and decides when a move to
 * another partition is worth its cost. No side effects: counters in, a decision
 * out.
 *
 * Stages are measured over windows of 16 minibatches. A move is worth it if the
 * simulated step becomes shorter by more than noise (5 % at first) in two
 * consecutive windows, and if the gain over the remaining steps exceeds the
 * cost of the move. After a move its forecast is compared with the measured
 * time of steps. If less than half of the forecast gain was reached, the next
 * move needs twice the gain; if steps became longer, the run moves back. From
 * the second move on, each move also doubles the number of consecutive windows
 * that the next one needs; 16 windows in a row without a gain halve it again. A
 * run therefore does not swing between two partitions, and moves less and less
 * often on a machine whose speed changes all the time. */
#ifndef VP_RUN_BALANCE_WATCH_H
#define VP_RUN_BALANCE_WATCH_H

#include "run/imbalance.h"

struct vp_balance_watch {
    struct vp_stage_stats begin[VP_MAX_STAGES]; /* at the window's begin */
    int64_t begin_minibatch;
    double seconds; /* sum over the window's steps */
    int n_steps;    /* steps of the window, plus one before it; 0: no window */
    int n_worth;    /* earlier windows in a row that showed a gain */
    int n_calm;     /* earlier windows in a row that showed none */
    int n_recent;   /* moves that the watch asked for, minus calm periods */
    /* Seconds of each stage when the last search found nothing worth a move; 0:
     * not known. */
    double quiet[VP_MAX_STAGES];
    double bar; /* gain that is worth a move, as a share; 0: not set yet */
    /* The last move, until it is judged: seconds per step before it (0: there
     * is no such move), forecast seconds per step, and the partition before
     * it. */
    double before, hoped;
    int partition[VP_MAX_STAGES];
};

/* Finds the best partition for the stages as measured from the window's begin
 * to `stats`. VP_ERR_INVALID if there is nothing to balance, or if a stage was
 * not measured yet. */
enum vp_status vp_balance_watch_find(const struct vp_balance_watch *watch,
                                     const struct vp_cost_table *costs,
                                     const struct vp_plan *plan,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_stats *stats,
                                     struct vp_imbalance *out,
                                     struct vp_err *err);

/* To be called after each step. Returns true if the run should move to
 * `found->partition`. The run ends with step `last_step`. */
bool vp_balance_watch_step(struct vp_balance_watch *watch,
                           const struct vp_cost_table *costs,
                           const struct vp_plan *plan,
                           const struct vp_schedule *schedule,
                           const struct vp_stage_stats *stats,
                           const struct vp_step_report *report,
                           int64_t last_step, struct vp_imbalance *found);
/* The run has moved to another plan; `asked` is true if the watch asked for
 * that move. Starts a new window. */
void vp_balance_watch_moved(struct vp_balance_watch *watch, bool asked);
/* The run could not move to the plan that the watch asked for. */
void vp_balance_watch_refused(struct vp_balance_watch *watch);

#endif
