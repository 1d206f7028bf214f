/* A product, and all that cuBLASLt wants to know of it. */
#ifndef VP_BACKEND_CUDA_PRODUCT_PLAN_H
#define VP_BACKEND_CUDA_PRODUCT_PLAN_H

#include "backend/cuda/device.h"

/* d [m, n] (+)= a [m, k] b [k, n] (+ bias), all of them column-major. */
struct vp_product {
    int64_t m, n, k;
    bool a_t, b_t; /* lies in memory as [k, m], [n, k] */
    enum vp_dtype type, type_out;
    bool bias; /* m elements of type_out, the same for every column */
    bool gelu; /* d = gelu(z), the tanh form, and z is kept; with bias only */
    bool add;  /* to what is in d */
};

static inline size_t vp_matrix_bytes(int64_t rows, int64_t cols,
                                     enum vp_dtype dtype)
{
    return (size_t)(rows * cols * vp_dtype_bytes(dtype));
}

struct vp_operands {
    const void *a, *b;
    void *d;
    const void *bias;
    void *z;
};

/* A product with all that cuBLASLt wants to know of it. */
struct vp_cuda_plan {
    struct vp_cuda_plan *next;
    struct vp_product key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    enum { VP_NOT_TRIED, VP_SAME_BITS, VP_OTHER_BITS } gelu_grad;
};

/* Fills in all but the algorithm, for plan->key; false if cuBLASLt refuses. Free
 * the plan in both cases. */
bool vp_cuda_plan_describe(struct vp_cuda *cuda, struct vp_cuda_plan *p);
void vp_cuda_plan_free(struct vp_cuda_plan *product);

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
