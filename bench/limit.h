/* How far a training step on a GPU is from what its parts allow. */
#ifndef VP_BENCH_LIMIT_H
#define VP_BENCH_LIMIT_H

#include "backend/profile.h"
#include "series.h"

#include <stdbool.h>

struct limit {
    const char *name;
    struct series ms;          /* per step, while nothing is recorded */
    int n_steps;               /* in each of the profiles */
    struct vp_profile replays; /* steps as they are */
    struct vp_profile calls;   /* call by call; no rows: not taken */
    double copy_rate;          /* bytes per second */
    double most_idle;          /* share of a step */
};

/* A table; false if a target is missed. */
bool limit_print(const struct limit *limit);

#endif
