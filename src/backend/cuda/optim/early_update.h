/* Updates of the optimizer that run while a backward list runs.
 *
 * As soon as the gradients of some tensors are final and no later call of the
 * list reads their weights, a stream of the lowest priority updates them, while
 * the other streams continue with the layers before:
 *
 *   list    B 23 | B 22 | B 21      | ...                         | join
 *   wgrad        | W 23 | W 22      | ...
 *   update              | update 23 | update 22 ... update 0
 *
 * Gradients of matrices may share memory (graph/grads.c). A W whose gradient
 * overwrites an older one waits for the update that reads the older one, and
 * for no other. Gradients that share memory are written by W calls only. */
#ifndef VP_BACKEND_CUDA_OPTIM_EARLY_UPDATE_H
#define VP_BACKEND_CUDA_OPTIM_EARLY_UPDATE_H

#include "backend/cuda/device.h"

/* A tensor whose gradient is final after the first `n_calls` calls of the list,
 * and whose weights no later call reads. */
struct vp_cuda_final_tensor {
    int tensor, n_calls;
};

struct vp_cuda_early_update {
    const struct vp_program *program;
    enum vp_list list;
    struct vp_cuda_tensors *tensors;
    const struct vp_optim_step *step;
    struct vp_cuda_stream *stream;
    cudaStream_t update_stream;         /* the list's stream if `alone` */
    struct vp_cuda_final_tensor *order; /* all tensors, the first final first */
    bool forked; /* update_stream was made to wait for the list */
    /* Numbers of leading entries of `order`: those that are final, those whose
     * update was launched, and those whose update the last guarded W waits
     * for. */
    int n_final, n_launched, n_done;
    int64_t n_waiting; /* elements that are final but not launched */
    int64_t worth;     /* n_waiting from which a launch is worth it */
    /* Ring, like the stream's events `updated`: n_launched after each of the
     * last VP_CUDA_UPDATES updates. */
    int ends[VP_CUDA_UPDATES];
    unsigned n_updates; /* updates launched so far */
};

/* Sorts the tensors of launch->update by the call after which they are final.
 * vp_cuda_set_step() must have been called before the list runs. `alone`:
 * updates run in the stream of the list. Allocates `order`, which
 * vp_cuda_early_update_end() frees; VP_ERR_NOMEM if that fails. */
enum vp_status vp_cuda_early_update_begin(
    struct vp_cuda_early_update *early, const struct vp_program *program,
    enum vp_list list, const struct vp_launch *launch,
    struct vp_cuda_tensors *tensors, bool alone, struct vp_cuda_stream *stream);
/* Marks the tensors that are final after `n_calls` of the list as updated: an
 * earlier segment of the list has done them. */
void vp_cuda_early_update_skip(struct vp_cuda_early_update *early, int n_calls);
/* Called before call number `index` of the list is launched on `stream`. Makes
 * `stream` wait for the updates that read a gradient which the call
 * overwrites. */
enum vp_status vp_cuda_early_update_guard(struct vp_cuda_early_update *early,
                                          int index, cudaStream_t stream);
/* Called when `n_calls` of the list have been launched. Launches the updates of
 * final tensors if they have enough elements to be worth a launch. */
enum vp_status vp_cuda_early_update_advance(struct vp_cuda_early_update *early,
                                            int n_calls);
/* Called when `n_calls` of the list have been launched and the list, or this
 * segment of it, ends. Launches the updates of all final tensors, makes the
 * list's stream wait for all updates, and frees `order`. */
enum vp_status vp_cuda_early_update_end(struct vp_cuda_early_update *early,
                                        int n_calls);

#endif
