/* A device whose kernels sleep instead of computing, to compare the simulator
 * with a real pipeline on any number of ranks, without competition for
 * cores. */
#ifndef VP_BENCH_SLEEPER_H
#define VP_BENCH_SLEEPER_H

#include "backend/backend.h"

/* Returns the backend. Its programs sleep `us_per_gflop` for each GFLOP, its
 * updates `ns_per_weight` for each weight; norms take no time. All calls return
 * the same table, with the values of the last call. */
const struct vp_backend_ops *sleeper_open(double us_per_gflop,
                                          double ns_per_weight);

#endif
