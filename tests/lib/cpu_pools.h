/* Pools of one to MAX_THREADS threads, for tests of CPU kernels. */
#ifndef VP_TESTS_LIB_CPU_POOLS_H
#define VP_TESTS_LIB_CPU_POOLS_H

#include "backend/cpu/fast.h"
#include "base/pool.h"

enum { MAX_THREADS = 3 };

extern struct vp_pool *pools[MAX_THREADS + 1]; /* by number of threads */

int start_pools(void **state);

int stop_pools(void **state);

#endif
