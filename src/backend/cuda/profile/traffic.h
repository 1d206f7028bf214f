#ifndef VP_BACKEND_CUDA_PROFILE_TRAFFIC_H
#define VP_BACKEND_CUDA_PROFILE_TRAFFIC_H

#include "backend/cuda/cuda.h"

/* Bytes that calls which run together cannot do without moving: every tensor
 * is read once and written once, and what only they use is neither. Without
 * the products of linears; small tables and sums are left out. Waits for the
 * device where labels are to be counted. */
double vp_cuda_traffic(const struct vp_cuda_call *calls, int n_calls);
/* The same for an update, and for the squares before it. */
double vp_cuda_update_traffic(const struct vp_optim_step *step);
double vp_cuda_squares_traffic(const struct vp_optim_tensor *tensors, int n);

#endif
