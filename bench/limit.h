/* How far a training step on a GPU is from what its parts allow. */
#ifndef VP_BENCH_LIMIT_H
#define VP_BENCH_LIMIT_H

#include "backend/profile.h"
#include "series.h"

#include <stdbool.h>

/* Steps that were recorded follow steps that were not, round by round: so the
 * clocks of the GPU are the same for both. */
struct limit {
    const char *name;
    struct series ms;          /* per step, while nothing is recorded */
    struct series recorded;    /* while it is */
    struct series busy;        /* of it, the GPU had a kernel running */
    struct vp_profile replays; /* the last of these rounds */
    int n_replays;             /* steps of it */
    struct vp_profile calls;   /* call by call; no rows: not taken */
    int n_calls;               /* steps of it */
    double copy_rate;          /* bytes per second */
    double most_idle;          /* share of a step */
};

/* A table; false if a target is missed. */
bool limit_print(const struct limit *limit);

#endif
