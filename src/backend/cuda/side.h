/* Weight gradients beside the list.
 *
 * Nothing in a list waits for the gradients of weights, so they go to a second
 * stream: small kernels and the ends of large ones leave processors idle that
 * the other stream can use.
 *
 *   list    B 23 | B 22 | B 21 | ...           | join
 *   side         | W 23 | W 22 | ...      W 0  |
 *
 * The memory plan keeps what a W reads for some calls after it. Where the list
 * would overwrite it all the same, it waits. */
#ifndef VP_BACKEND_CUDA_SIDE_H
#define VP_BACKEND_CUDA_SIDE_H

#include "backend/cuda/cuda.h"

enum { VP_CUDA_PENDING = 32, VP_CUDA_SPANS = 8 };

struct vp_cuda_span {
    const char *begin, *end;
};

/* A W that may not have run yet, and what it reads. */
struct vp_cuda_pending {
    struct vp_cuda_span spans[VP_CUDA_SPANS];
    int n_spans;
    cudaEvent_t done;
};

struct vp_cuda_side {
    cudaStream_t list, stream;
    cudaEvent_t fork;
    struct vp_cuda_pending pending[VP_CUDA_PENDING]; /* a ring */
    unsigned first, end;
    bool forked; /* in the list being launched */
};

enum vp_status vp_cuda_side_create(cudaStream_t list,
                                   struct vp_cuda_side **out);
void vp_cuda_side_free(struct vp_cuda_side *side);

void vp_cuda_side_begin(struct vp_cuda_side *side);
/* Before the list runs some of `calls`, the first ones. */
void vp_cuda_side_guard(struct vp_cuda_side *side,
                        const struct vp_cuda_call *calls, int n_calls);
/* After a W was launched. */
void vp_cuda_side_note(struct vp_cuda_side *side,
                       const struct vp_cuda_call *call);
/* The list goes on after all of it. */
void vp_cuda_side_end(struct vp_cuda_side *side);

#endif
