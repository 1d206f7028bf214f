/* Matrix products by cuBLASLt.
 *
 * The bits of a product depend on its shape, types and epilogue only: all
 * tensors have the same alignment, the workspace always has the same size, sums
 * that are split over blocks are added in a fixed order, and the search for a
 * fast algorithm keeps the bits (search.c). They therefore do not depend on how
 * a model is cut. */
#ifndef VP_BACKEND_CUDA_PRODUCT_PRODUCT_H
#define VP_BACKEND_CUDA_PRODUCT_PRODUCT_H

#include "backend/cuda/device.h"
#include "backend/cuda/product/gelu_grad.h"
#include "backend/cuda/product/plan.h"

/* Enqueues a product. `workspace`: VP_CUDA_WORKSPACE bytes on the device. The
 * first use of a shape searches for an algorithm, which takes time and memory
 * of the device. VP_ERR_UNSUPPORTED with a message in cuda->err if there is
 * none. */
enum vp_status vp_cuda_multiply(struct vp_cuda *cuda,
                                const struct vp_product *product,
                                const struct vp_operands *operands,
                                void *workspace, cudaStream_t stream);
/* Returns true if vp_gelu_grad_run() supports the sizes of `grad` and gives the
 * same bits as vp_cuda_multiply(), which is tried when a shape is first
 * used. */
bool vp_cuda_multiplies_as(struct vp_cuda *cuda,
                           const struct vp_gelu_grad *grad);
void vp_cuda_plans_free(struct vp_cuda *cuda);

#endif
