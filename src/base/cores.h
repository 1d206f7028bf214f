/* How much of the cores a process got: tells one that is starved by other
 * programs from one that is stuck. */
#ifndef VP_BASE_CORES_H
#define VP_BASE_CORES_H

#include <stdbool.h>
#include <stdint.h>

/* Of all threads of a process so far. */
struct vp_cores {
    int64_t ran_ns;     /* on a core */
    int64_t delayed_ns; /* ready to run, while other threads had the cores; of
                           threads that have not ended */
};

/* Of this process. delayed_ns is 0 where the kernel does not say. */
struct vp_cores vp_cores_read(void);
/* Less time than this is no evidence: on a busy machine any thread may wait for
 * a core for some tenths of a second. */
#define VP_CORES_EVIDENCE_NS INT64_C(1000000000)
/* Whether a process that had work for `ns` got too little: it waited for a core
 * for more than half of that time, and twice as long as it ran. `before` is a
 * reading at the start of that time. */
bool vp_cores_starved(const struct vp_cores *before, const struct vp_cores *now,
                      int64_t ns);

#endif
