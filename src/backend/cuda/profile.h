#ifndef VP_BACKEND_CUDA_PROFILE_H
#define VP_BACKEND_CUDA_PROFILE_H

#include "backend/cuda/device.h"
#include "backend/profile.h"

void vp_cuda_profile_begin_list(struct vp_cuda_profile *profile,
                                cudaStream_t stream);
/* `n` calls were launched together, or `other` work. */
void vp_cuda_profile_mark(struct vp_cuda_profile *profile,
                          const struct vp_cuda_call *calls, int n,
                          const char *other, cudaStream_t stream);
void vp_cuda_profile_end_list(struct vp_cuda_profile *profile);

#endif
