/* Waiting threads spin for a moment, then sleep on a futex. */
#include "base/counter.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_ROUNDS = 100, /* a few microseconds: less than a sleep costs */
    SLICE_NS = 20 * 1000 * 1000 /* longest sleep before `stop` is checked */
};

static void futex_wait(atomic_uint *word, uint32_t seen, int64_t ns)
{
    struct timespec limit = { .tv_sec = ns / 1000000000,
                              .tv_nsec = ns % 1000000000 };

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0);
}

void vp_counter_add(struct vp_counter *counter)
{
    atomic_fetch_add(&counter->value, 1);
    if (atomic_load(&counter->n_sleeping) > 0)
        syscall(SYS_futex, &counter->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL,
                NULL, 0);
}

/* Sleeps until woken, at most SLICE_NS or `left_ns`. */
static void sleep_once(struct vp_counter *counter, uint32_t target,
                       int64_t left_ns)
{
    uint32_t seen;

    atomic_fetch_add(&counter->n_sleeping, 1);
    seen = atomic_load(&counter->value);
    if ((int32_t)(seen - target) < 0)
        futex_wait(&counter->value, seen,
                   left_ns < SLICE_NS ? left_ns : SLICE_NS);
    atomic_fetch_sub(&counter->n_sleeping, 1);
}

enum vp_status vp_counter_wait(struct vp_counter *counter, uint32_t target,
                               struct vp_limit limit, const atomic_bool *stop)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (vp_counter_reached(counter, target))
            return VP_OK;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    while (!vp_counter_reached(counter, target)) {
        if (stop && atomic_load(stop))
            return VP_ERR_ABORTED;
        if (vp_limit_is_over(&limit))
            return VP_ERR_TIMEOUT;
        sleep_once(counter, target, vp_limit_left_ns(&limit));
    }
    return VP_OK;
}
