/* Backend functions that do nothing. */
#include "no_work.h"

enum vp_status no_work_sum_squares(struct vp_backend *backend,
                                   struct vp_stream *stream,
                                   const struct vp_optim_tensor *tensors,
                                   int n_tensors, const float *data,
                                   double *sums_out)
{
    (void)backend;
    (void)stream;
    (void)tensors;
    (void)data;
    for (int i = 0; i < n_tensors; i++)
        sums_out[i] = 0.0;
    return VP_OK;
}

enum vp_status no_work_update(struct vp_backend *backend,
                              struct vp_stream *stream,
                              const struct vp_optim_step *step)
{
    (void)backend;
    (void)stream;
    (void)step;
    return VP_OK;
}
