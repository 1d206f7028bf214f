/* Steps of F of cross_entropy in a tensor-parallel group (group/meeting.h).
 * begin: each member's part of the rows. join: log-sum-exp and loss of the
 * rows; in an evaluation, each member also counts its ids that rank before the
 * label. end: the sums of these counts, in an evaluation only. */
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
