#ifndef VP_BACKEND_CUDA_PRODUCT_SEARCH_H
#define VP_BACKEND_CUDA_PRODUCT_SEARCH_H

#include "backend/cuda/product/plan.h"

/* The algorithm for a plan, of n that were suggested, one to so many. */
enum { VP_CUDA_SUGGESTIONS = 32 };
cublasLtMatmulAlgo_t vp_cuda_search(
    struct vp_cuda *cuda, const struct vp_cuda_plan *plan,
    const cublasLtMatmulHeuristicResult_t *suggested, int n);

/* Whether vp_gelu_grad_run() has the bits of the plan; false where there is no
 * memory to find out. */
bool vp_cuda_search_gelu_grad(struct vp_cuda *cuda,
                              const struct vp_cuda_plan *plan);

#endif
