/* How far the stages of a run are from equal work, and the partition that would
 * mend it. Works on times that were measured: those of computing, not of
 * waiting. */
#ifndef VP_RUN_IMBALANCE_H
#define VP_RUN_IMBALANCE_H

#include "plan/costs.h"
#include "runtime/report.h"

/* Seconds of a stage for one minibatch, on one of its ranks. */
struct vp_stage_seconds {
    double f, b, update;
};

/* From sums at two times, of `n_replicas` ranks; zeros if nothing was done in
 * between. */
struct vp_stage_seconds vp_imbalance_measure(const struct vp_stage_stats *begin,
                                             const struct vp_stage_stats *end,
                                             int n_replicas);

/* The share of the busiest rank's work that another partition would take from it:
 * a cheap bound that says whether a search can find much. `schedule` says which
 * ranks have which stages. VP_ERR_NOMEM. */
enum vp_status vp_imbalance_estimate(const struct vp_cost_table *costs,
                                     const struct vp_plan *plan,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_seconds *stages,
                                     double *share_out);

struct vp_imbalance {
    double now,
        then; /* simulated seconds of a step; of a stream, a minibatch */
    int partition[VP_MAX_STAGES]; /* that takes `then` */
    bool same;                    /* it is the plan's own */
};

/* Blocks keep their relative cost, which is that of `costs`; what a rank takes
 * more or less than these is a property of the rank. `plan` has a partition. */
enum vp_status vp_imbalance_find(const struct vp_cost_table *costs,
                                 const struct vp_plan *plan,
                                 const struct vp_stage_seconds *stages,
                                 struct vp_imbalance *out, struct vp_err *err);

#endif
