/* Kernels of group_sum and group_copy that run after the meeting, and W of
 * group_sum. */
#ifndef VP_BACKEND_CUDA_GROUP_GROUP_SUM_H
#define VP_BACKEND_CUDA_GROUP_GROUP_SUM_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

void vp_cuda_group_sum_end(const struct vp_cuda_call *call);
void vp_cuda_group_copy_end(const struct vp_cuda_call *call);
enum vp_status vp_cuda_group_sum_w(const struct vp_cuda_call *call);

#ifdef __cplusplus
}
#endif
#endif
