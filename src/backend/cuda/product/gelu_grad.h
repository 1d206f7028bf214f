/* A matrix product and the gradient of the erf form of GELU after it, in one
 * kernel: backward of a linear layer whose input is the output of GELU. For
 * types of two bytes. */
#ifndef VP_BACKEND_CUDA_PRODUCT_GELU_GRAD_H
#define VP_BACKEND_CUDA_PRODUCT_GELU_GRAD_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dz = (x w) * gelu'(z), with x w rounded first; recomputed = gelu(z). All
 * matrices are row-major. */
struct vp_gelu_grad {
    int64_t rows, cols, depth;
    enum vp_dtype dtype;
    const void *x, *w; /* [rows, depth], [depth, cols] */
    const void *z;     /* [rows, cols], like dz and recomputed */
    void *dz, *recomputed;
    void *parts; /* column sums of dz; see vp_cuda_act_grad() */
};

/* Returns true if the kernel supports these sizes, this type and this GPU. Only
 * then may vp_gelu_grad_run() be called. */
bool vp_gelu_grad_takes(const struct vp_gelu_grad *p);
void vp_gelu_grad_run(const struct vp_gelu_grad *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
