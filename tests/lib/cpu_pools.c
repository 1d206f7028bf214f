#include "lib/cpu_pools.h"

struct vp_pool *pools[MAX_THREADS + 1];

static void setup_thread(void *ctx, int thread)
{
    (void)ctx;
    vp_cpu_thread_setup(thread);
}

int start_pools(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++)
        if (vp_pool_create(n, setup_thread, NULL, &pools[n]) != VP_OK)
            return -1;
    vp_cpu_thread_setup(0);
    return 0;
}

int stop_pools(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_THREADS; n++)
        vp_pool_free(pools[n]);
    return 0;
}
