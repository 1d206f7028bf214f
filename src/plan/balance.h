/* Cuts a model into stages whose computing times are as equal as possible. */
#ifndef VP_PLAN_BALANCE_H
#define VP_PLAN_BALANCE_H

#include "base/status.h"

/* Gives every one of `n_stages` stages at least one of `n` >= n_stages blocks,
 * in order. costs[s * n + i] is the time of block i on stage s: finite, not
 * negative; replicas and recomputation make it depend on the stage. Minimizes
 * the time of the slowest stage; among the partitions with that minimum takes
 * the one with the least sum of squared stage times, and among those the one
 * that cuts earliest. partition_out[s] is the number of blocks of stage s.
 * Returns VP_ERR_NOMEM or VP_OK. */
enum vp_status vp_plan_balance(const double *costs, int n, int n_stages,
                               int *partition_out);

/* Like vp_plan_balance() for ranks that own several stages: rank[s], less than
 * `n_ranks`, owns stage s. A local search reduces the time of the busiest rank,
 * then the sum of squares over ranks, then over stages. The result is never
 * worse than that of vp_plan_balance() by this measure. */
enum vp_status vp_plan_balance_ranks(const double *costs, int n, int n_stages,
                                     const int *rank, int n_ranks,
                                     int *partition_out);

#endif
