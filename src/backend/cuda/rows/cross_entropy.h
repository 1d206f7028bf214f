/* The steps of cross_entropy in a tensor-parallel group: what each member knows of
 * the rows; loss and log-sum-exp of rows, in an evaluation the ids before the label
 * that each member has; their number. */
#ifndef VP_BACKEND_CUDA_ROWS_CROSS_ENTROPY_H
#define VP_BACKEND_CUDA_ROWS_CROSS_ENTROPY_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

void vp_cuda_loss_begin(const struct vp_cuda_call *call);
void vp_cuda_loss_join(const struct vp_cuda_call *call);
void vp_cuda_loss_end(const struct vp_cuda_call *call);

#ifdef __cplusplus
}
#endif
#endif
