/* Compares a training step on a GPU with the limits of its parts. */
#ifndef VP_BENCH_LIMIT_H
#define VP_BENCH_LIMIT_H

#include "backend/profile.h"
#include "series.h"

#include <stdbool.h>

/* Rounds of recorded and unrecorded steps alternate, so that the clocks of the
 * GPU are the same for both. */
struct limit {
    const char *name;
    struct series ms;          /* per unrecorded step */
    struct series recorded;    /* ms per recorded step */
    struct series busy;        /* ms per recorded step with a kernel running */
    struct vp_profile replays; /* the last recorded round */
    int n_replays;             /* steps in `replays` */
    struct vp_profile calls;   /* by call; no rows: not measured */
    int n_calls;               /* steps in `calls` */
    double copy_rate;          /* bytes per second */
    double most_idle;          /* target: idle share of a step */
};

/* Prints a table. Returns false if a target is missed. */
bool limit_print(const struct limit *limit);

#endif
