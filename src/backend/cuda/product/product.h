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
#include "backend/cuda/product/plan.h"

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
