/* A product and the gradient of GELU, its erf form, after it, in one kernel:
 * what the layer after one with GELU hands to it. Types of two bytes. */
#ifndef VP_BACKEND_CUDA_PRODUCT_GELU_GRAD_H
#define VP_BACKEND_CUDA_PRODUCT_GELU_GRAD_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dz = (x w) * gelu'(z), of a product that is rounded first; recomputed =
 * gelu(z). All matrices are row-major. */
struct vp_gelu_grad {
    int64_t rows, cols, depth;
    enum vp_dtype dtype;
    const void *x, *w; /* [rows, depth], [depth, cols] */
    const void *z;     /* [rows, cols], as dz and recomputed */
    void *dz, *recomputed;
    void *parts; /* of the sums of columns of dz; see vp_cuda_act_grad() */
};

/* Whether there is a kernel for these sizes, and on this GPU. */
bool vp_gelu_grad_takes(const struct vp_gelu_grad *p);
void vp_gelu_grad_run(const struct vp_gelu_grad *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
