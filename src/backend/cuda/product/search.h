/* Chooses algorithms of products by timing those that give the same bits. */
#ifndef VP_BACKEND_CUDA_PRODUCT_SEARCH_H
#define VP_BACKEND_CUDA_PRODUCT_SEARCH_H

#include "backend/cuda/product/plan.h"

/* Returns the algorithm for a plan, one of the n in `suggested`, 1 <= n <=
 * VP_CUDA_SUGGESTIONS. May take a fraction of a second; safe to call from
 * several threads. */
enum { VP_CUDA_SUGGESTIONS = 32 };
cublasLtMatmulAlgo_t vp_cuda_search(
    struct vp_cuda *cuda, const struct vp_cuda_plan *plan,
    const cublasLtMatmulHeuristicResult_t *suggested, int n);

/* Returns true if vp_gelu_grad_run() gives the same bits as the plan; false
 * also if there is not enough device memory to find out. */
bool vp_cuda_search_gelu_grad(struct vp_cuda *cuda,
                              const struct vp_cuda_plan *plan);

#endif
