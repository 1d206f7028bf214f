/* What tests of the CUDA plugin share: a GPU and threads of the CPU beside
 * it, and the sizes that the environment asks for. */
#ifndef VP_TESTS_LIB_CUDA_SETUP_H
#define VP_TESTS_LIB_CUDA_SETUP_H

#include "base/pool.h"
#include "graph/graph.h"

#include <stddef.h>

extern struct vp_pool *cuda_pool; /* for the fast CPU kernels */

/* Group functions for cmocka_run_group_tests(); the GPU is open. */
int start_gpu(void **state);

int stop_gpu(void **state);

/* The largest scratch of an operator's phases on the GPU. */
size_t most_scratch(const struct vp_graph *graph, const struct vp_op *op);

/* VP_TINY=1: small sizes only, enough under a sanitizer. VP_TINY=2: and every
 * operator in one mode, not the same for all, under a slow one. */
int tiny(void);

#endif
