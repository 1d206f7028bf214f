/* Bytes that calls have to move between the GPU and its memory. */
#ifndef VP_BACKEND_CUDA_PROFILE_TRAFFIC_H
#define VP_BACKEND_CUDA_PROFILE_TRAFFIC_H

#include "backend/cuda/cuda.h"

/* Returns the least number of bytes that calls which are launched together can
 * move: each tensor is read and written once, and tensors that only these calls
 * use are not counted. Products of linears, small tables and sums are left out.
 * Synchronizes the stream to count the labels of cross_entropy. */
double vp_cuda_traffic(const struct vp_cuda_call *calls, int n_calls);
/* The same for an update of the optimizer, and for the sums of squares of
 * gradients. */
double vp_cuda_update_traffic(const struct vp_optim_step *step);
double vp_cuda_squares_traffic(const struct vp_optim_tensor *tensors, int n);

#endif
