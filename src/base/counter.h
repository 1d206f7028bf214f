/* A counter that only grows and that threads can wait for. Rank threads of a
 * process wait for each other only through it; every wait has a time limit. */
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

/* Returns true if the value is at or past `target`, with acquire order. */
static inline bool vp_counter_reached(struct vp_counter *counter,
                                      uint32_t target)
{
    return (int32_t)(atomic_load_explicit(&counter->value,
                                          memory_order_acquire) -
                     target) >= 0;
}

/* Adds 1 and wakes all waiting threads. Memory writes before the call are
 * visible to threads that see the new value. */
void vp_counter_add(struct vp_counter *counter);

/* Waits until the counter has reached `target`. Returns VP_ERR_TIMEOUT at
 * `limit`, and VP_ERR_ABORTED within about 20 ms of `*stop` becoming true;
 * `stop` may be NULL. Spins for a few microseconds before it sleeps. */
enum vp_status vp_counter_wait(struct vp_counter *counter, uint32_t target,
                               struct vp_limit limit, const atomic_bool *stop);

#endif
