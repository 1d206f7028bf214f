/* The two parts of bench_scaling, and the models that they use. */
#ifndef VP_BENCH_SCALING_H
#define VP_BENCH_SCALING_H

#include "lab.h"

struct scaling_model {
    const char *name;
    struct lab_size size;
    double flop_rate;   /* FLOP/s of a rank, over all operators */
    double update_rate; /* parameters per second */
};

/* Prints a row of JSON for every mix of stages and replicas on `n_ranks`
 * ranks. */
void scaling_study(const struct scaling_model *model, int n_ranks);

/* Compares real pipelines on `n_ranks` threads of this machine with the
 * simulator: prints a row of JSON per schedule. */
void scaling_calibrate(int n_ranks);

#endif
