/* Cutting a model into stages of equal work. */
#ifndef VP_PLAN_BALANCE_H
#define VP_PLAN_BALANCE_H

#include "base/status.h"

/* Gives every one of `n_stages` stages at least one of `n` >= n_stages blocks,
 * in order. costs[s * n + i] is the time of block i on stage s: finite, not
 * negative; replicas and recomputation make it depend on the stage. The
 * slowest stage is as fast as it can be; of the partitions with that maximum
 * the most even one is taken (least sum of squares), and of those the one that
 * cuts earliest. Fails only when memory is exhausted. */
enum vp_status vp_plan_balance(const double *costs, int n, int n_stages,
                               int *partition_out);

/* The same where rank rank[s] of `n_ranks` owns stage s, and others: the
 * busiest rank is made as fast as a local search can, then all ranks and all
 * stages as even. Never worse than vp_plan_balance() in that. */
enum vp_status vp_plan_balance_ranks(const double *costs, int n, int n_stages,
                                     const int *rank, int n_ranks,
                                     int *partition_out);

#endif
