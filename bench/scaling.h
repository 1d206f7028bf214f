/* What the two halves of bench_scaling share. */
#ifndef VP_BENCH_SCALING_H
#define VP_BENCH_SCALING_H

#include "lab.h"

struct scaling_model {
    const char *name;
    struct lab_size size;
    double flop_rate;   /* of a rank, all operators together; FLOP/s */
    double update_rate; /* parameters per second */
};

/* A row of JSON for every mix of stages and replicas, over `n_ranks` ranks. */
void scaling_study(const struct scaling_model *model, int n_ranks);

/* Real pipelines on `n_ranks` threads of this machine, against the simulator:
 * a row of JSON per schedule. */
void scaling_calibrate(int n_ranks);

#endif
