/* The optimizer inside of a backward.
 *
 * As soon as the gradients of some tensors are final, and nothing in the list
 * reads their weights any more, a stream of the lowest priority updates them
 * while the others go on with the layers before:
 *
 *   list    B 23 | B 22 | B 21      | ...                         | join
 *   wgrad        | W 23 | W 22      | ...
 *   tail                | update 23 | update 22 ... update 0
 *
 * Where gradients are used up (graph/grads.c), a W whose gradient takes the
 * place of another waits for the update of that one, and for nothing else. Only
 * matrices give way, and no kernel writes the gradient of one but its W. */
#ifndef VP_BACKEND_CUDA_OPTIM_EARLY_H
#define VP_BACKEND_CUDA_OPTIM_EARLY_H

#include "backend/cuda/device.h"

/* A tensor, final when so many calls of the list have been launched. */
struct vp_cuda_final {
    int tensor, n_calls;
};

struct vp_cuda_early {
    const struct vp_program *program;
    enum vp_list list;
    struct vp_cuda_tensors *tensors;
    const struct vp_optim_step *step;
    struct vp_cuda_stream *stream;
    cudaStream_t tail;           /* the list's own: nothing runs beside it */
    struct vp_cuda_final *order; /* all tensors, as they become final */
    bool forked;                 /* the tail has come along */
    /* Of `order`: so many are final, were given to the tail, are done before the
     * next W. */
    int n_final, n_given, n_done;
    int64_t n_waiting;         /* elements that are final but not given, ... */
    int64_t worth;             /* ... and how many are given at once */
    int ends[VP_CUDA_UPDATES]; /* n_given after each of the last updates: */
    unsigned n_updates;        /* a ring, as the stream's events are */
};

/* Looks at the list; the step's scalars must be set before it runs. `alone`:
 * in the list's own stream. */
enum vp_status vp_cuda_early_begin(struct vp_cuda_early *early,
                                   const struct vp_program *program,
                                   enum vp_list list,
                                   const struct vp_launch *launch,
                                   struct vp_cuda_tensors *tensors, bool alone,
                                   struct vp_cuda_stream *stream);
/* Before call number `index` of the list. */
enum vp_status vp_cuda_early_guard(struct vp_cuda_early *early, int index,
                                   cudaStream_t stream);
/* So many calls of the list have been launched. */
enum vp_status vp_cuda_early_advance(struct vp_cuda_early *early, int n_calls);
/* What is left, and the first stream goes on after all of it. */
enum vp_status vp_cuda_early_end(struct vp_cuda_early *early);

#endif
