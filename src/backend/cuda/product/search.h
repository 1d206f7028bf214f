#ifndef VP_BACKEND_CUDA_PRODUCT_SEARCH_H
#define VP_BACKEND_CUDA_PRODUCT_SEARCH_H

#include "backend/cuda/product/product.h"

/* A product with all that cuBLASLt wants to know of it. */
struct vp_cuda_plan {
    struct vp_cuda_plan *next;
    struct vp_product key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    enum { VP_NOT_TRIED, VP_SAME_BITS, VP_OTHER_BITS } gelu_grad;
};

/* The algorithm for a plan, of n that were suggested, one to so many. */
enum { VP_CUDA_SUGGESTIONS = 32 };
cublasLtMatmulAlgo_t vp_cuda_search(
    struct vp_cuda *cuda, const struct vp_cuda_plan *plan,
    const cublasLtMatmulHeuristicResult_t *suggested, int n);

/* Whether vp_gelu_grad_run() has the bits of the plan; false where there is no
 * memory to find out. */
bool vp_cuda_search_gelu_grad(struct vp_cuda *cuda,
                              const struct vp_cuda_plan *plan);

/* product.c */
/* At most `most` algorithms for a plan, best guess first; `sums` says how sums
 * may be split: a mask of cublasLtReductionScheme_t. Returns how many. */
int vp_cuda_suggest(struct vp_cuda *cuda, const struct vp_cuda_plan *plan,
                    uint32_t sums, int most,
                    cublasLtMatmulHeuristicResult_t *suggested_out);
cublasStatus_t vp_cuda_run_plan(struct vp_cuda *cuda,
                                const struct vp_cuda_plan *plan,
                                const cublasLtMatmulAlgo_t *algo,
                                const struct vp_operands *operands,
                                void *workspace, cudaStream_t stream);
bool vp_product_same(const struct vp_product *a, const struct vp_product *b);

#endif
