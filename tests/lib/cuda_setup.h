/* Setup of tests of the CUDA plugin: a GPU, a pool of CPU threads to compare
 * with, and test sizes from the environment. */
#ifndef VP_TESTS_LIB_CUDA_SETUP_H
#define VP_TESTS_LIB_CUDA_SETUP_H

#include "base/pool.h"
#include "graph/graph.h"

#include <stddef.h>

extern struct vp_pool *cuda_pool; /* for the fast CPU kernels */

/* Group functions for cmocka_run_group_tests(), between gpu_open() and
 * gpu_close(). */
int start_gpu(void **state);

int stop_gpu(void **state);

/* Returns the largest scratch size of an operator's phases on the GPU. */
size_t most_scratch(const struct vp_graph *graph, const struct vp_op *op);

/* Returns the number in VP_TINY, 0 without it. 1: small sizes only, for a
 * sanitizer. 2: also only one mode per operator, in turn, for a slow
 * sanitizer. */
int tiny(void);

#endif
