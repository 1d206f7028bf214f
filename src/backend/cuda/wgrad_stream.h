/* A second stream, for weight gradients.
 *
 * No call of a list reads the gradients of weights, so W calls go to a stream
 * of their own: small kernels and the ends of large ones leave processors idle
 * that the other stream can use.
 *
 *   list    B 23 | B 22 | B 21 | ...           | join
 *   wgrad        | W 23 | W 22 | ...      W 0  |
 *
 * The memory plan keeps what a W reads for some calls after it. A call of the
 * list that would overwrite it while the W may not have run waits for the W. */
#ifndef VP_BACKEND_CUDA_WGRAD_STREAM_H
#define VP_BACKEND_CUDA_WGRAD_STREAM_H

#include "backend/cuda/cuda.h"

enum { VP_CUDA_PENDING = 32, VP_CUDA_SPANS = 8 };

struct vp_cuda_bytes {
    const char *begin, *end;
};

/* A W that may not have run yet, and what it reads. */
struct vp_cuda_pending {
    struct vp_cuda_bytes spans[VP_CUDA_SPANS];
    int n_spans;
    cudaEvent_t done;
};

struct vp_cuda_wgrad_stream {
    cudaStream_t list, stream;
    cudaEvent_t fork;
    struct vp_cuda_pending pending[VP_CUDA_PENDING]; /* a ring */
    unsigned first, end;
    bool forked; /* in the list being launched */
};

enum vp_status vp_cuda_wgrad_stream_create(cudaStream_t list,
                                           struct vp_cuda_wgrad_stream **out);
void vp_cuda_wgrad_stream_free(struct vp_cuda_wgrad_stream *wgrad);

void vp_cuda_wgrad_stream_begin(struct vp_cuda_wgrad_stream *wgrad);
/* Called before the list launches the first of `calls`, fused or alone: makes
 * it wait for every W that reads what they write. `wgrad` may be NULL. */
void vp_cuda_wgrad_stream_guard(struct vp_cuda_wgrad_stream *wgrad,
                                const struct vp_cuda_call *calls, int n_calls);
/* Called after a W was launched. */
void vp_cuda_wgrad_stream_note(struct vp_cuda_wgrad_stream *wgrad,
                               const struct vp_cuda_call *call);
/* Makes the list wait for all W calls. */
void vp_cuda_wgrad_stream_end(struct vp_cuda_wgrad_stream *wgrad);

#endif
