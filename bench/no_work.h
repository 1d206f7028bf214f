/* Functions of a backend that compute nothing, to measure the runtime alone.
 * Sums are 0. */
#ifndef VP_BENCH_NO_WORK_H
#define VP_BENCH_NO_WORK_H

#include "backend/backend.h"

enum vp_status no_work_sum_squares(struct vp_backend *backend,
                                   struct vp_stream *stream,
                                   const struct vp_optim_tensor *tensors,
                                   int n_tensors, const float *data,
                                   double *sums_out);
enum vp_status no_work_update(struct vp_backend *backend,
                              struct vp_stream *stream,
                              const struct vp_optim_step *step);

#endif
