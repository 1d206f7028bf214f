/* A counter that only grows, and that threads can wait for. The one way in
 * which ranks of a process wait for each other; every wait has a limit. */
#ifndef VP_BASE_COUNTER_H
#define VP_BASE_COUNTER_H

#include "base/limit.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vp_counter {
    _Alignas(64) atomic_uint value; /* wraps; compared by difference */
    atomic_int n_sleeping;
};

static inline bool vp_counter_reached(struct vp_counter *counter,
                                      uint32_t target)
{
    return (int32_t)(atomic_load_explicit(&counter->value,
                                          memory_order_acquire) -
                     target) >= 0;
}

/* Adds 1 and wakes the waiting threads. What was written before is visible to
 * a thread that sees the new value. */
void vp_counter_add(struct vp_counter *counter);

/* Returns once the counter has reached `target`; VP_ERR_TIMEOUT at
 * `limit`; VP_ERR_ABORTED soon after `*stop` turned true. Spins for a moment before it sleeps. */
enum vp_status vp_counter_wait(struct vp_counter *counter, uint32_t target,
                               struct vp_limit limit, const atomic_bool *stop);

#endif
