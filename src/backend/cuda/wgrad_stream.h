/* A second stream, for weight gradients.
 *
 * No call of a list reads the gradients of weights, so W calls can run in their
 * own stream. They use processors that small kernels and the ends of large
 * kernels leave idle.
 *
 *   list    B 23 | B 22 | B 21 | ...           | join
 *   wgrad        | W 23 | W 22 | ...      W 0  |
 *
 * The memory plan keeps the inputs of a W for some calls after it. A call of
 * the list that would overwrite them waits for the W, if the W may not have run
 * yet. */
#ifndef VP_BACKEND_CUDA_WGRAD_STREAM_H
#define VP_BACKEND_CUDA_WGRAD_STREAM_H

#include "backend/cuda/cuda.h"

/* Limits: W calls that can be waited for one by one, tensors of a call. */
enum { VP_CUDA_PENDING = 32, VP_CUDA_SPANS = 8 };

struct vp_cuda_bytes {
    const char *begin, *end;
};

/* A W that may not have run yet, and the memory it reads. `done` is recorded
 * after it. */
struct vp_cuda_pending {
    struct vp_cuda_bytes spans[VP_CUDA_SPANS];
    int n_spans;
    cudaEvent_t done;
};

struct vp_cuda_wgrad_stream {
    cudaStream_t list, stream;
    cudaEvent_t fork;
    /* Ring: entries [first, end), modulo its size, are in use. */
    struct vp_cuda_pending pending[VP_CUDA_PENDING];
    unsigned first, end;
    bool forked; /* a W of the current list was launched */
};

/* `list`: stream of the other calls; borrowed. If this fails, *out may have
 * been set and must be freed. */
enum vp_status vp_cuda_wgrad_stream_create(cudaStream_t list,
                                           struct vp_cuda_wgrad_stream **out);
void vp_cuda_wgrad_stream_free(struct vp_cuda_wgrad_stream *wgrad);

/* Called before the first call of a list is launched. */
void vp_cuda_wgrad_stream_begin(struct vp_cuda_wgrad_stream *wgrad);
/* Called before the list launches the first of `calls`, alone or fused with
 * some of the others: makes the list wait for every W that reads what they
 * write. `wgrad` may be NULL: all calls are in one stream. */
void vp_cuda_wgrad_stream_guard(struct vp_cuda_wgrad_stream *wgrad,
                                const struct vp_cuda_call *calls, int n_calls);
/* Called after a W was launched: notes what it reads. */
void vp_cuda_wgrad_stream_note(struct vp_cuda_wgrad_stream *wgrad,
                               const struct vp_cuda_call *call);
/* Makes the list wait for all W calls. */
void vp_cuda_wgrad_stream_end(struct vp_cuda_wgrad_stream *wgrad);

#endif
