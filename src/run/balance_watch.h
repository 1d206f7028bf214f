/* Watches the work of stages as a run goes on, and says when another partition is
 * worth a move. Pure: sums in, a decision out.
 *
 * Stages are measured over windows of some minibatches. A move is worth it if the
 * simulated step becomes shorter by a share that noise does not reach, in two
 * windows one after the other, and if the steps that are left bring in what it
 * costs. After a move its forecast is compared with the time that steps take. If
 * less than half of the gain came, the next move needs twice the gain; if steps
 * became longer, the run goes back. From the second move on, the next one also needs
 * twice as many windows one after the other, until none was worth a move for a
 * while. So a run does not
 * swing between two partitions, and moves ever less on a machine whose speed
 * changes all the time. */
#ifndef VP_RUN_BALANCE_WATCH_H
#define VP_RUN_BALANCE_WATCH_H

#include "run/imbalance.h"

struct vp_balance_watch {
    struct vp_stage_stats begin[VP_MAX_STAGES]; /* of the window */
    int64_t begin_minibatch;
    double seconds; /* of the window's steps */
    int n_steps;    /* of the window, and one before it */
    int n_worth;    /* windows before it, in a row, that showed a gain */
    int n_calm;     /* or that did not */
    int n_recent;   /* moves that the watch asked for, less calm times since */
    /* Seconds of each stage when nothing worth a move was found last; 0: not
     * known. */
    double quiet[VP_MAX_STAGES];
    double bar; /* the gain that is worth a move; 0: the first one */
    /* The last move, until it is judged: seconds of a step before it, 0: there is
     * none; those that were forecast; and the partition before it. */
    double before, hoped;
    int partition[VP_MAX_STAGES];
};

/* The stages as measured from the window's begin to `stats`. VP_ERR_INVALID if
 * there is nothing to balance, or too little was measured. */
enum vp_status vp_balance_watch_find(const struct vp_balance_watch *watch,
                                     const struct vp_cost_table *costs,
                                     const struct vp_plan *plan,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_stats *stats,
                                     struct vp_imbalance *out,
                                     struct vp_err *err);

/* After a step. Returns true if the run should move to `found->partition`;
 * `last_step` ends the run. */
bool vp_balance_watch_step(struct vp_balance_watch *watch,
                           const struct vp_cost_table *costs,
                           const struct vp_plan *plan,
                           const struct vp_schedule *schedule,
                           const struct vp_stage_stats *stats,
                           const struct vp_step_report *report,
                           int64_t last_step, struct vp_imbalance *found);
/* The run has another plan; `asked`: the one that the watch asked for. Measures
 * anew. */
void vp_balance_watch_moved(struct vp_balance_watch *watch, bool asked);
/* The run could not take the plan that the watch asked for. */
void vp_balance_watch_refused(struct vp_balance_watch *watch);

#endif
