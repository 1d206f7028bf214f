/* From the recorded actions of a run to the time the simulator gives it. */
#ifndef VP_BENCH_FORECAST_H
#define VP_BENCH_FORECAST_H

#include "runtime/trainer/trainer.h"

struct forecast {
    double seconds;
    double speedup; /* all computing one after the other / seconds */
    double bubble;
};

/* Mean seconds of each kind of action, per stage, over the last `n_mb`
 * minibatches; waits are not part of an action. */
void forecast_costs(struct vp_trainer *trainer, int n_mb,
                    struct vp_stage_costs *costs_out);

/* What schedule `name` takes for `n_mb` minibatches, empty pipe to empty
 * pipe. */
struct forecast forecast_run(const char *name, int n_stages, int n_mb,
                             const struct vp_stage_costs *costs);

#endif
