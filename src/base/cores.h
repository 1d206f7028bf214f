/* CPU time and scheduling delay of this process: they show whether a process
 * without progress is starved by other programs or stuck. */
#ifndef VP_BASE_CORES_H
#define VP_BASE_CORES_H

#include <stdbool.h>
#include <stdint.h>

/* Sums over all threads of a process since its start. */
struct vp_cores {
    int64_t ran_ns;     /* running on a core */
    int64_t delayed_ns; /* ready to run but waiting for a core; without threads
                           that have ended */
};

/* Returns the sums of this process. delayed_ns is 0 on kernels without
 * /proc/self/task/TID/schedstat. */
struct vp_cores vp_cores_read(void);
/* Shorter periods prove nothing: on a busy machine any thread may wait for a
 * core for some tenths of a second. */
#define VP_CORES_EVIDENCE_NS INT64_C(1000000000)
/* `before` and `now` are readings at the start and end of `ns` nanoseconds in
 * which the process had work. Returns true if the process was starved: it
 * waited for a core for more than half of `ns`, and more than twice as long as
 * it ran. */
bool vp_cores_starved(const struct vp_cores *before, const struct vp_cores *now,
                      int64_t ns);

#endif
