/* The sleeping device of the tests, for benchmarks. */
#include "sleeper.h"

#include "lib/sleepdevice.h"

const struct vp_backend_ops *sleeper_open(double us_per_gflop,
                                          double ns_per_weight)
{
    return sleep_device(1e-6 * us_per_gflop, ns_per_weight);
}
