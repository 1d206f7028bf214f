/* Monotonic time (CLOCK_MONOTONIC), in nanoseconds. */
#ifndef VP_BASE_CLOCK_H
#define VP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

int64_t vp_clock_ns(void);
/* Returns the time `ms` milliseconds from now, for timed waits that use
 * CLOCK_MONOTONIC. */
struct timespec vp_clock_after(int ms);

static inline double vp_clock_seconds(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) * 1e-9;
}

#endif
