/* Updates of the optimizer while a backward runs.
 *
 * As soon as the gradients of some tensors are final and no later call of the
 * list reads their weights, a stream of the lowest priority updates them while
 * the other streams go on with the layers before:
 *
 *   list    B 23 | B 22 | B 21      | ...                         | join
 *   wgrad        | W 23 | W 22      | ...
 *   update              | update 23 | update 22 ... update 0
 *
 * Where gradients share memory (graph/grads.c), a W whose gradient overwrites
 * another one waits for the update that reads that one, and for nothing else.
 * Only gradients of matrices share memory, and only its W writes one. */
#ifndef VP_BACKEND_CUDA_OPTIM_EARLY_UPDATE_H
#define VP_BACKEND_CUDA_OPTIM_EARLY_UPDATE_H

#include "backend/cuda/device.h"

/* A tensor, whose gradient is final after the first n_calls of the list. */
struct vp_cuda_final_tensor {
    int tensor, n_calls;
};

struct vp_cuda_early_update {
    const struct vp_program *program;
    enum vp_list list;
    struct vp_cuda_tensors *tensors;
    const struct vp_optim_step *step;
    struct vp_cuda_stream *stream;
    cudaStream_t update_stream;         /* or that of the list */
    struct vp_cuda_final_tensor *order; /* all tensors, as they become final */
    bool forked;                        /* update_stream waits for the list */
    /* The first of `order`: those that are final, that were launched, that the
     * stream of the last W waits for. */
    int n_final, n_launched, n_done;
    int64_t n_waiting; /* elements that are final but not launched, ... */
    int64_t worth;     /* ... and how many are worth a launch */
    int ends[VP_CUDA_UPDATES]; /* n_launched after each of the last updates: */
    unsigned n_updates;        /* a ring, as the stream's events are */
};

/* Finds out when tensors become final. The scalars of the step must be set
 * before the list runs. `alone`: updates run in the stream of the list. */
enum vp_status vp_cuda_early_update_begin(
    struct vp_cuda_early_update *early, const struct vp_program *program,
    enum vp_list list, const struct vp_launch *launch,
    struct vp_cuda_tensors *tensors, bool alone, struct vp_cuda_stream *stream);
/* Goes on where an earlier one has ended after `n_calls` of the list. */
void vp_cuda_early_update_skip(struct vp_cuda_early_update *early, int n_calls);
/* Called before call number `index` of the list is launched on `stream`: makes
 * it wait for the updates that read what the call overwrites. */
enum vp_status vp_cuda_early_update_guard(struct vp_cuda_early_update *early,
                                          int index, cudaStream_t stream);
/* Called when n_calls of the list have been launched: launches updates that are
 * worth it. */
enum vp_status vp_cuda_early_update_advance(struct vp_cuda_early_update *early,
                                            int n_calls);
/* Called when `n_calls` of the list have been launched, and nothing follows, or what
 * follows is another launch: launches what is final, and makes the list wait for all
 * updates. Frees `order`. */
enum vp_status vp_cuda_early_update_end(struct vp_cuda_early_update *early,
                                        int n_calls);

#endif
