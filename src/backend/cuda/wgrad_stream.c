/* Launches weight gradients in a second stream, as wgrad_stream.h describes. */
#include "backend/cuda/wgrad_stream.h"

#include <stdlib.h>

enum { MAX_FUSED = 5 }; /* largest number of calls that one launch does */

enum vp_status vp_cuda_wgrad_stream_create(cudaStream_t list,
                                           struct vp_cuda_wgrad_stream **out)
{
    struct vp_cuda_wgrad_stream *wgrad = calloc(1, sizeof(*wgrad));
    const unsigned flags = cudaEventDisableTiming;
    cudaError_t error = cudaSuccess;
    int least = 0, greatest = 0;

    if (!wgrad)
        return VP_ERR_NOMEM;
    *out = wgrad;
    wgrad->list = list;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    error = cudaStreamCreateWithPriority(&wgrad->stream, cudaStreamNonBlocking,
                                         greatest);
    if (error == cudaSuccess)
        error = cudaEventCreateWithFlags(&wgrad->fork, flags);
    for (int i = 0; i < VP_CUDA_PENDING && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&wgrad->pending[i].done, flags);
    return error == cudaSuccess ? VP_OK : VP_ERR_IO;
}

void vp_cuda_wgrad_stream_free(struct vp_cuda_wgrad_stream *wgrad)
{
    if (!wgrad)
        return;
    if (wgrad->stream)
        cudaStreamDestroy(wgrad->stream);
    if (wgrad->fork)
        cudaEventDestroy(wgrad->fork);
    for (int i = 0; i < VP_CUDA_PENDING; i++)
        if (wgrad->pending[i].done)
            cudaEventDestroy(wgrad->pending[i].done);
    free(wgrad);
}

void vp_cuda_wgrad_stream_begin(struct vp_cuda_wgrad_stream *wgrad)
{
    wgrad->first = wgrad->end = 0;
    wgrad->forked = false;
}

void vp_cuda_wgrad_stream_fork(const struct vp_cuda_call *call)
{
    struct vp_cuda_wgrad_stream *wgrad = call->wgrad;

    if (!wgrad)
        return;
    cudaEventRecord(wgrad->fork, wgrad->list);
    cudaStreamWaitEvent(wgrad->stream, wgrad->fork, 0);
    wgrad->forked = true;
}

/* ---- Memory of calls ---------------------------------------------------- */

static void add_span(struct vp_cuda_pending *p, const void *begin,
                     int64_t n_bytes)
{
    if (!begin || n_bytes == 0)
        return;
    VP_BUG_ON(p->n_spans == VP_CUDA_SPANS);
    p->spans[p->n_spans++] = (struct vp_cuda_bytes){
        (const char *)begin, (const char *)begin + n_bytes
    };
}

static void add_value(struct vp_cuda_pending *p, const struct vp_kargs *args,
                      vp_val value, const void *begin)
{
    if (value != VP_NONE)
        add_span(p, begin, vp_value_bytes(args->graph, value));
}

static void add_scratch(struct vp_cuda_pending *p,
                        const struct vp_cuda_call *call)
{
    const struct vp_backend_config config = {
        .capability = vp_cuda_capability()
    };

    add_span(p, call->args.scratch,
             (int64_t)vp_cuda_scratch_bytes(&config, call->args.graph,
                                            call->args.op, call->phase));
}

/* Notes the tensors that a W reads, and its scratch. */
static void find_reads(struct vp_cuda_pending *p,
                       const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    const struct vp_op *op = args->op;

    p->n_spans = 0;
    for (int i = 0; i < VP_MAX_IN; i++)
        add_value(p, args, op->in[i], args->in[i]);
    for (int i = 0; i < VP_MAX_AUX; i++)
        add_value(p, args, op->aux[i], args->aux[i]);
    add_value(p, args, op->out, args->dz ? args->dz : args->dout);
    add_scratch(p, call);
}

/* Notes the tensors that a call of the list writes, and its scratch. A W that
 * is fused with calls of the list writes partial sums to its scratch in the
 * list's stream. */
static void find_writes(struct vp_cuda_pending *p,
                        const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    const struct vp_op *op = args->op;

    p->n_spans = 0;
    add_scratch(p, call);
    if (call->phase == VP_PHASE_F) {
        add_value(p, args, op->out, args->out);
        for (int i = 0; i < VP_MAX_AUX; i++)
            add_value(p, args, op->aux[i], args->aux[i]);
    }
    if (call->phase == VP_PHASE_B) {
        for (int i = 0; i < VP_MAX_IN; i++)
            add_value(p, args, op->in[i], args->din[i]);
        add_value(p, args, op->out, args->dz);
        add_value(p, args, op->out, args->recomputed_out);
    }
}

static bool overlap(const struct vp_cuda_pending *a,
                    const struct vp_cuda_pending *b)
{
    for (int i = 0; i < a->n_spans; i++)
        for (int j = 0; j < b->n_spans; j++)
            if (a->spans[i].begin < b->spans[j].end &&
                b->spans[j].begin < a->spans[i].end)
                return true;
    return false;
}

/* ---- Waiting ------------------------------------------------------------ */

/* Makes the list wait for pending[i], and thereby for all W calls before it. */
static void wait_for(struct vp_cuda_wgrad_stream *wgrad, unsigned i)
{
    cudaStreamWaitEvent(wgrad->list, wgrad->pending[i % VP_CUDA_PENDING].done,
                        0);
    wgrad->first = i + 1;
}

void vp_cuda_wgrad_stream_guard(struct vp_cuda_wgrad_stream *wgrad,
                                const struct vp_cuda_call *calls, int n_calls)
{
    for (int k = 0; wgrad && k < n_calls && k < MAX_FUSED; k++) {
        struct vp_cuda_pending writes;

        find_writes(&writes, &calls[k]);
        for (unsigned i = wgrad->end; i > wgrad->first; i--)
            if (overlap(&writes, &wgrad->pending[(i - 1) % VP_CUDA_PENDING]))
                wait_for(wgrad, i - 1);
    }
}

void vp_cuda_wgrad_stream_note(struct vp_cuda_wgrad_stream *wgrad,
                               const struct vp_cuda_call *call)
{
    struct vp_cuda_pending *p;

    if (wgrad->end - wgrad->first == VP_CUDA_PENDING)
        wait_for(wgrad, wgrad->first);
    p = &wgrad->pending[wgrad->end++ % VP_CUDA_PENDING];
    find_reads(p, call);
    cudaEventRecord(p->done, wgrad->stream);
}

void vp_cuda_wgrad_stream_end(struct vp_cuda_wgrad_stream *wgrad)
{
    if (!wgrad->forked)
        return;
    cudaEventRecord(wgrad->fork, wgrad->stream);
    cudaStreamWaitEvent(wgrad->list, wgrad->fork, 0);
}
