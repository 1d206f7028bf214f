/* Measures how unequal the work of the stages is, and finds the partition with
 * the shortest step. Uses measured times of computing, without waiting. */
#ifndef VP_RUN_IMBALANCE_H
#define VP_RUN_IMBALANCE_H

#include "plan/costs.h"
#include "runtime/report.h"

/* Seconds of a stage per minibatch, on one of its ranks. */
struct vp_stage_seconds {
    double f, b, update;
};

/* Computes the seconds from counters at two times, summed over `n_replicas`
 * ranks. Zeros if no minibatch was computed in between. */
struct vp_stage_seconds vp_imbalance_measure(const struct vp_stage_stats *begin,
                                             const struct vp_stage_stats *end,
                                             int n_replicas);

/* Computes the share of the busiest rank's work that another partition would
 * take from it: a cheap bound on what a search can gain. `schedule` gives the
 * ranks of stages. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_imbalance_estimate(const struct vp_cost_table *costs,
                                     const struct vp_plan *plan,
                                     const struct vp_schedule *schedule,
                                     const struct vp_stage_seconds *stages,
                                     double *share_out);

struct vp_imbalance {
    double now;  /* simulated seconds per step with the current partition; of a
                    stream, per minibatch */
    double then; /* the same with `partition` */
    int partition[VP_MAX_STAGES]; /* best partition that was found */
    bool same;                    /* `partition` is the current one */
};

/* Finds the partition with the shortest simulated step. Costs of blocks
 * relative to each other are those of `costs`; a rank that takes more or less
 * time than that is modelled as a slower or faster rank. `plan` must have a
 * partition. */
enum vp_status vp_imbalance_find(const struct vp_cost_table *costs,
                                 const struct vp_plan *plan,
                                 const struct vp_stage_seconds *stages,
                                 struct vp_imbalance *out, struct vp_err *err);

#endif
