/* The optimizer inside of a backward.
 *
 * As soon as the gradients of some tensors are final, and nothing in the list
 * reads their weights any more, a stream of the lowest priority updates them
 * while the others go on with the layers before:
 *
 *   list    B 23 | B 22 | B 21      | ...                         | join
 *   side         | W 23 | W 22      | ...
 *   tail                | update 23 | update 22 ... update 0
 */
#ifndef VP_BACKEND_CUDA_EARLY_H
#define VP_BACKEND_CUDA_EARLY_H

#include "backend/cuda/device.h"

struct vp_cuda_early {
    struct vp_cuda_tensors *tensors;
    const struct vp_optim_step *step;
    struct vp_stream *stream;
    int *n_calls;  /* per tensor: those of the list that touch it come before */
    int end;       /* tensors [0, end) are still to be updated */
    int64_t least; /* elements worth an update */
};

/* Looks at the list; the step's scalars must be set before it runs. */
enum vp_status vp_cuda_early_begin(struct vp_cuda_early *early,
                                   const struct vp_program *program,
                                   enum vp_list list,
                                   const struct vp_launch *launch,
                                   struct vp_cuda_tensors *tensors,
                                   struct vp_stream *stream);
/* So many calls of the list have been launched. */
enum vp_status vp_cuda_early_advance(struct vp_cuda_early *early, int n_calls);
/* What is left, and the first stream goes on after all of it. */
enum vp_status vp_cuda_early_end(struct vp_cuda_early *early);

#endif
