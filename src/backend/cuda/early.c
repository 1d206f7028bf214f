#include "backend/cuda/early.h"

#include <stdlib.h>

/* Updates of a list, at most: each is long enough to use the memory's whole
 * rate, and the last one, which nothing hides, is short. */
enum { PARTS = 32 };

static bool overlaps(const struct vp_optim_tensor *tensor, struct vp_ref ref,
                     int64_t unit, int64_t n)
{
    int64_t begin = ref.offset / unit;

    return ref.space != VP_SPACE_NONE && tensor->offset < begin + n &&
           begin < tensor->offset + tensor->n;
}

/* Trained tensors begin at the same element of weights and gradients. */
static bool touches(const struct vp_program *program,
                    const struct vp_call *call,
                    const struct vp_optim_tensor *tensor)
{
    const struct vp_graph *graph = program->graph;
    int64_t unit = vp_dtype_bytes(graph->dtype);

    for (int i = 0; i < VP_MAX_PARAM; i++) {
        const struct vp_param *param;

        if (call->op->par[i] == VP_NONE)
            continue;
        param = &graph->params[call->op->par[i]];
        if (overlaps(tensor, call->par[i], unit, param->rows * param->cols) ||
            overlaps(tensor, call->dpar[i], (int64_t)sizeof(float),
                     param->rows * param->cols))
            return true;
    }
    return false;
}

static int calls_until(const struct vp_program *program, enum vp_list list,
                       const struct vp_optim_tensor *tensor)
{
    int n = program->n_calls[list];

    while (n > 0 && !touches(program, &program->calls[list][n - 1], tensor))
        n--;
    return n;
}

enum vp_status vp_cuda_early_begin(struct vp_cuda_early *early,
                                   const struct vp_program *program,
                                   enum vp_list list,
                                   const struct vp_launch *launch,
                                   struct vp_cuda_tensors *tensors,
                                   struct vp_stream *stream)
{
    const struct vp_optim_step *step = launch->update;

    *early = (struct vp_cuda_early){ .tensors = tensors,
                                     .step = step,
                                     .stream = stream,
                                     .end = step->n_tensors };
    early->n_calls = calloc((size_t)step->n_tensors + 1,
                            sizeof(*early->n_calls));
    if (!early->n_calls)
        return VP_ERR_NOMEM;
    for (int i = 0; i < step->n_tensors; i++) {
        early->n_calls[i] = calls_until(program, list, &step->tensors[i]);
        early->least += step->tensors[i].n;
    }
    early->least = early->least / PARTS + 1;
    return VP_OK;
}

/* The tail goes on where another stream is now. */
static enum vp_status follow(struct vp_cuda_early *early, cudaStream_t other)
{
    struct vp_stream *stream = early->stream;
    struct vp_cuda *cuda = &stream->backend->cuda;

    VP_TRY(
        vp_cuda_check(cuda, cudaEventRecord(stream->fork, other), "updating"));
    return vp_cuda_check(
        cuda, cudaStreamWaitEvent(stream->tail, stream->fork, 0), "updating");
}

static enum vp_status update_from(struct vp_cuda_early *early, int begin)
{
    struct vp_stream *stream = early->stream;

    VP_TRY(follow(early, stream->stream));
    if (stream->side->forked)
        VP_TRY(follow(early, stream->side->stream));
    vp_cuda_update_early(early->tensors, begin, early->end, early->step,
                         stream->tail);
    early->end = begin;
    return vp_cuda_check(&stream->backend->cuda, cudaPeekAtLastError(),
                         "updating");
}

enum vp_status vp_cuda_early_advance(struct vp_cuda_early *early, int n_calls)
{
    int begin = early->end;
    int64_t n = 0;

    while (begin > 0 && early->n_calls[begin - 1] <= n_calls)
        n += early->step->tensors[--begin].n;
    return n < early->least ? VP_OK : update_from(early, begin);
}

/* Waits for the updates even where they failed: a capture must be joined. */
enum vp_status vp_cuda_early_end(struct vp_cuda_early *early)
{
    struct vp_stream *stream = early->stream;
    struct vp_cuda *cuda = &stream->backend->cuda;
    enum vp_status st = update_from(early, 0);
    cudaError_t error = cudaEventRecord(stream->join, stream->tail);

    if (st == VP_OK)
        st = vp_cuda_check(cuda, error, "updating");
    error = cudaStreamWaitEvent(stream->stream, stream->join, 0);
    if (st == VP_OK)
        st = vp_cuda_check(cuda, error, "updating");
    free(early->n_calls);
    return st;
}
