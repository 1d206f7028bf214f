/* A device whose kernels sleep instead of computing: the simulator against a
 * real pipeline without the noise of a machine, with more ranks than cores. */
#ifndef VP_BENCH_SLEEPER_H
#define VP_BENCH_SLEEPER_H

#include "backend/backend.h"

/* A list of a program takes `us_per_gflop` for each GFLOP, an update
 * `ns_per_weight` for each weight; norms take nothing. The same table at each
 * call. */
const struct vp_backend_ops *sleeper_open(double us_per_gflop,
                                          double ns_per_weight);

#endif
