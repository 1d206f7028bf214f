/* Matrix products by cuBLASLt.
 *
 * The bits of a product depend on its shape, types and epilogue only: every
 * tensor is aligned alike, the workspace always has the same size, sums that are
 * split over blocks are added up in a fixed order, and the search for a fast
 * algorithm keeps the bits (search.c). So they do not depend on how a model is
 * cut. */
#ifndef VP_BACKEND_CUDA_PRODUCT_PRODUCT_H
#define VP_BACKEND_CUDA_PRODUCT_PRODUCT_H

#include "backend/cuda/device.h"
#include "backend/cuda/product/gelu_grad.h"

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

enum vp_status vp_cuda_multiply(struct vp_cuda *cuda,
                                const struct vp_product *product,
                                const struct vp_operands *operands,
                                void *workspace, cudaStream_t stream);
/* Whether the kernel takes its product, and has the bits that
 * vp_cuda_multiply() has: tried when a shape is first seen. */
bool vp_cuda_multiplies_as(struct vp_cuda *cuda,
                           const struct vp_gelu_grad *grad);
void vp_cuda_plans_free(struct vp_cuda *cuda);

#endif
