/* Pools of one to MAX_THREADS threads, for tests of CPU kernels. */
#ifndef VP_TESTS_CPU_POOLS_H
#define VP_TESTS_CPU_POOLS_H

#include "backend/cpu/fast.h"
#include "base/pool.h"

enum { MAX_THREADS = 3 };

static struct vp_pool *pools[MAX_THREADS + 1]; /* by number of threads */

static inline void setup_thread(void *ctx, int thread)
{
    (void)ctx;
    vp_cpu_thread_setup(thread);
}

static inline int start_pools(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++)
        if (vp_pool_create(n, setup_thread, NULL, &pools[n]) != VP_OK)
            return -1;
    vp_cpu_thread_setup(0);
    return 0;
}

static inline int stop_pools(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++)
        vp_pool_free(pools[n]);
    return 0;
}

#endif
