/* A matrix product, and its description for cuBLASLt. */
#ifndef VP_BACKEND_CUDA_PRODUCT_PLAN_H
#define VP_BACKEND_CUDA_PRODUCT_PLAN_H

#include "backend/cuda/device.h"

/* d [m, n] (+)= a [m, k] b [k, n] (+ bias); all matrices are column-major. */
struct vp_product {
    int64_t m, n, k;
    bool a_t, b_t; /* a, b are stored as [k, m], [n, k] */
    enum vp_dtype type, type_out;
    bool bias; /* m elements of type_out, added to every column */
    bool gelu; /* d = gelu(z) in tanh form, z is stored; needs bias */
    bool add;  /* add to d instead of overwriting it */
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

/* A product with its description for cuBLASLt and the chosen algorithm.
 * `gelu_grad`: whether vp_gelu_grad_run() gives the same bits, once tried. */
struct vp_cuda_plan {
    struct vp_cuda_plan *next;
    struct vp_product key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    enum { VP_NOT_TRIED, VP_SAME_BITS, VP_OTHER_BITS } gelu_grad;
};

/* Sets all fields but the algorithm, for plan->key. Returns false if cuBLASLt
 * refuses. The caller frees the plan with vp_cuda_plan_free() in both cases. */
bool vp_cuda_plan_describe(struct vp_cuda *cuda, struct vp_cuda_plan *p);
void vp_cuda_plan_free(struct vp_cuda_plan *product);

/* Writes at most `most` algorithms for a plan to `suggested_out`, the best
 * guess first. `sums`: allowed ways to split sums, a mask of
 * cublasLtReductionScheme_t. Returns their number, 0 on failure. */
int vp_cuda_suggest(struct vp_cuda *cuda, const struct vp_cuda_plan *plan,
                    uint32_t sums, int most,
                    cublasLtMatmulHeuristicResult_t *suggested_out);
/* Enqueues the product with `algo`. `workspace`: VP_CUDA_WORKSPACE bytes on the
 * device. */
cublasStatus_t vp_cuda_run_plan(struct vp_cuda *cuda,
                                const struct vp_cuda_plan *plan,
                                const cublasLtMatmulAlgo_t *algo,
                                const struct vp_operands *operands,
                                void *workspace, cudaStream_t stream);
bool vp_product_same(const struct vp_product *a, const struct vp_product *b);

#endif
