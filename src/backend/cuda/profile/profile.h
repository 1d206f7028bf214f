#ifndef VP_BACKEND_CUDA_PROFILE_PROFILE_H
#define VP_BACKEND_CUDA_PROFILE_PROFILE_H

#include "backend/cuda/product/gelu_grad.h"
#include "backend/cuda/product/plan.h"
#include "backend/profile.h"

/* What is launched between a push and its pop goes to the row that the pop
 * names; a product inside of a call counts as itself. No profile (NULL): they
 * do nothing. */
int vp_cuda_profile_push(struct vp_cuda_profile *profile);
void vp_cuda_profile_pop_calls(struct vp_cuda_profile *profile, int label,
                               const struct vp_cuda_call *calls, int n);
void vp_cuda_profile_pop_product(struct vp_cuda_profile *profile, int label,
                                 const struct vp_product *product);
void vp_cuda_profile_pop_gelu(struct vp_cuda_profile *profile, int label,
                              const struct vp_gelu_grad *grad);
void vp_cuda_profile_pop_other(struct vp_cuda_profile *profile, int label,
                               const char *name, double n_bytes);

/* The row of a product; NULL if it was not run. */
struct vp_profile_row *vp_cuda_profile_find(struct vp_profile *profile,
                                            const struct vp_product *product);

#endif
