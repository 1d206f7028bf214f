/* Simulates a run with the mean times of its recorded actions. */
#ifndef VP_BENCH_FORECAST_H
#define VP_BENCH_FORECAST_H

#include "runtime/trainer/trainer.h"

struct forecast {
    double seconds;
    double speedup; /* sum of all computing times / seconds */
    double bubble;
};

/* Writes the mean seconds of each kind of action, per stage, over the last
 * `n_mb` minibatches, without waits. */
void forecast_costs(struct vp_trainer *trainer, int n_mb,
                    struct vp_stage_costs *costs_out);

/* Simulates schedule `name` for `n_mb` minibatches, from an empty pipe to an
 * empty pipe. */
struct forecast forecast_run(const char *name, int n_stages, int n_mb,
                             const struct vp_stage_costs *costs);

#endif
