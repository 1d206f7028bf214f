/* Labels of launches, by which profile.c adds up the time of kernels. */
#ifndef VP_BACKEND_CUDA_PROFILE_PROFILE_H
#define VP_BACKEND_CUDA_PROFILE_PROFILE_H

#include "backend/cuda/product/gelu_grad.h"
#include "backend/cuda/product/plan.h"
#include "backend/profile.h"

/* The kernels launched between a push and the pop with its label are counted in
 * the row that the pop names. A product within a call is counted in its own row
 * only. With `profile` NULL, both do nothing. */
int vp_cuda_profile_push(struct vp_cuda_profile *profile);
void vp_cuda_profile_pop_calls(struct vp_cuda_profile *profile, int label,
                               const struct vp_cuda_call *calls, int n);
void vp_cuda_profile_pop_product(struct vp_cuda_profile *profile, int label,
                                 const struct vp_product *product);
void vp_cuda_profile_pop_gelu(struct vp_cuda_profile *profile, int label,
                              const struct vp_gelu_grad *grad);
void vp_cuda_profile_pop_other(struct vp_cuda_profile *profile, int label,
                               const char *name, double n_bytes);

/* Returns the row of a product, or NULL if it was not run. */
struct vp_profile_row *vp_cuda_profile_find(struct vp_profile *profile,
                                            const struct vp_product *product);

#endif
