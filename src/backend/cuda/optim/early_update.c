/* Launches updates of the optimizer beside a backward list, as early_update.h
 * describes. */
#include "backend/cuda/optim/early_update.h"

#include "backend/cuda/profile/profile.h"
#include "backend/cuda/profile/traffic.h"

#include <stdlib.h>

/* Minimum number of elements for an update beside the list: enough to use most
 * of the memory bandwidth, few enough that W calls seldom wait for an
 * update. */
enum { WORTH = 4 << 20 };

struct span {
    int64_t begin, end; /* elements */
};

static bool meet(struct span a, struct span b)
{
    return a.begin < b.end && b.begin < a.end;
}

/* Elements of parameter `i` of a call; empty if the call does not have it.
 * `unit`: bytes per element of the space that `refs` point into. */
static struct span span_of(const struct vp_graph *graph,
                           const struct vp_call *call, int i,
                           const struct vp_ref *refs, int64_t unit)
{
    const struct vp_param *param;
    struct span span = { refs[i].offset / unit, refs[i].offset / unit };

    if (call->op->par[i] == VP_NONE || refs[i].space == VP_SPACE_NONE)
        return (struct span){ 0, 0 };
    param = &graph->params[call->op->par[i]];
    span.end += param->rows * param->cols;
    return span;
}

/* True if the call writes to elements that overlap `grad`. */
static bool writes_grad(const struct vp_program *program,
                        const struct vp_call *call, struct span grad)
{
    for (int i = 0; i < VP_MAX_PARAM; i++)
        if (meet(grad, span_of(program->graph, call, i, call->dpar,
                               (int64_t)sizeof(float))))
            return true;
    return false;
}

/* True if a parameter of the call overlaps `weights`. */
static bool names_weights(const struct vp_program *program,
                          const struct vp_call *call, struct span weights)
{
    for (int i = 0; i < VP_MAX_PARAM; i++)
        if (meet(weights, span_of(program->graph, call, i, call->par,
                                  vp_dtype_bytes(program->graph->dtype))))
            return true;
    return false;
}

static struct span grad_of(const struct vp_optim_tensor *tensor)
{
    return (struct span){ tensor->grad, tensor->grad + tensor->n };
}

/* Number of calls at the start of the list after which the gradient of `tensor`
 * is final and its weights are no longer read. A call that writes a gradient
 * also names the weights, so looking for the weights finds both. */
static int calls_until(const struct vp_program *program, enum vp_list list,
                       const struct vp_optim_tensor *tensor)
{
    struct span weights = { tensor->offset, tensor->offset + tensor->n };
    int n = program->n_calls[list];

    while (n > 0 &&
           !names_weights(program, &program->calls[list][n - 1], weights))
        n--;
    return n;
}

/* Tensors that become final after the same call are sorted by falling number:
 * backward usually visits them in this order, so that neighbours follow each
 * other and form one range. */
static int sooner_first(const void *a, const void *b)
{
    const struct vp_cuda_final_tensor *x = a, *y = b;

    if (x->n_calls != y->n_calls)
        return x->n_calls < y->n_calls ? -1 : 1;
    return (x->tensor < y->tensor) - (x->tensor > y->tensor);
}

enum vp_status vp_cuda_early_update_begin(
    struct vp_cuda_early_update *early, const struct vp_program *program,
    enum vp_list list, const struct vp_launch *launch,
    struct vp_cuda_tensors *tensors, bool alone, struct vp_cuda_stream *stream)
{
    const struct vp_optim_step *step = launch->update;

    *early = (struct vp_cuda_early_update){
        .program = program,
        .list = list,
        .tensors = tensors,
        .step = step,
        .stream = stream,
        .update_stream = alone ? stream->stream : stream->update_stream,
        .worth = alone ? INT64_MAX : WORTH
    };
    early->order = calloc((size_t)step->n_tensors + 1, sizeof(*early->order));
    if (!early->order)
        return VP_ERR_NOMEM;
    for (int i = 0; i < step->n_tensors; i++)
        early->order[i] = (struct vp_cuda_final_tensor){
            i, calls_until(program, list, &step->tensors[i])
        };
    qsort(early->order, (size_t)step->n_tensors, sizeof(*early->order),
          sooner_first);
    return VP_OK;
}

/* Number of tensors of `order` that are final after `n_calls` of the list. */
static int count_final(const struct vp_cuda_early_update *early, int n_calls)
{
    int n = early->n_final;

    while (n < early->step->n_tensors && early->order[n].n_calls <= n_calls)
        n++;
    return n;
}

void vp_cuda_early_update_skip(struct vp_cuda_early_update *early, int n_calls)
{
    early->n_final = count_final(early, n_calls);
    early->n_launched = early->n_done = early->n_final;
}

/* ---- Updates ------------------------------------------------------------ */

/* Makes `stream` wait for everything that was launched on `other` so far. */
static enum vp_status follow(struct vp_cuda_early_update *early,
                             cudaStream_t stream, cudaStream_t other,
                             cudaEvent_t event)
{
    struct vp_cuda *cuda = &early->stream->backend->cuda;

    if (stream == other)
        return VP_OK;
    VP_TRY(vp_cuda_check(cuda, cudaEventRecord(event, other), "updating"));
    return vp_cuda_check(cuda, cudaStreamWaitEvent(stream, event, 0),
                         "updating");
}

/* Bytes that the update of these tensors reads and writes. */
static double traffic_of(const struct vp_cuda_early_update *early,
                         const struct vp_cuda_ranges *which)
{
    struct vp_optim_step part = *early->step;
    double n_bytes = 0.0;

    for (int i = 0; i < which->n; i++) {
        part.tensors = early->step->tensors + which->at[i].begin;
        part.n_tensors = which->at[i].end - which->at[i].begin;
        n_bytes += vp_cuda_update_traffic(&part);
    }
    return n_bytes;
}

/* One launch, for the final tensors that fit in one vp_cuda_ranges. */
static void launch_update(struct vp_cuda_early_update *early)
{
    struct vp_cuda_profile *profile = early->stream->backend->cuda.profile;
    struct vp_cuda_ranges which = { .n = 0 };
    int label;

    while (early->n_launched < early->n_final &&
           vp_cuda_ranges_add(&which, early->order[early->n_launched].tensor))
        early->n_launched++;
    label = vp_cuda_profile_push(profile);
    vp_cuda_update_ranges(early->tensors, &which, early->step,
                          early->update_stream);
    vp_cuda_profile_pop_other(profile, label, "update",
                              traffic_of(early, &which));
}

/* Records the event after the updates launched so far, for wait_for(). */
static enum vp_status mark_end(struct vp_cuda_early_update *early)
{
    unsigned i = early->n_updates++ % VP_CUDA_UPDATES;

    early->ends[i] = early->n_launched;
    return vp_cuda_check(
        &early->stream->backend->cuda,
        cudaEventRecord(early->stream->updated[i], early->update_stream),
        "updating");
}

/* Launches the updates of all tensors that are final, after the W calls that
 * have been launched. */
static enum vp_status launch_updates(struct vp_cuda_early_update *early)
{
    struct vp_cuda_stream *stream = early->stream;

    if (early->n_launched == early->n_final)
        return VP_OK;
    early->forked = true;
    VP_TRY(follow(early, early->update_stream, stream->stream, stream->fork));
    if (stream->wgrad->forked)
        VP_TRY(follow(early, early->update_stream, stream->wgrad->stream,
                      stream->fork));
    while (early->n_launched < early->n_final)
        launch_update(early);
    early->n_waiting = 0;
    VP_TRY(vp_cuda_check(&stream->backend->cuda, cudaPeekAtLastError(),
                         "updating"));
    return mark_end(early);
}

enum vp_status vp_cuda_early_update_advance(struct vp_cuda_early_update *early,
                                            int n_calls)
{
    const struct vp_optim_step *step = early->step;

    while (early->n_final < step->n_tensors &&
           early->order[early->n_final].n_calls <= n_calls)
        early->n_waiting +=
            step->tensors[early->order[early->n_final++].tensor].n;
    return early->n_waiting < early->worth ? VP_OK : launch_updates(early);
}

/* ---- Gradients that share memory ---------------------------------------- */

/* Makes `stream` wait until the first `n` tensors of `order` are updated. Of
 * the events still in the ring, the earliest that covers them is used. */
static enum vp_status wait_for(struct vp_cuda_early_update *early, int n,
                               cudaStream_t stream)
{
    unsigned i = early->n_updates - 1, oldest = 0;

    if (early->n_updates > VP_CUDA_UPDATES)
        oldest = early->n_updates - VP_CUDA_UPDATES;
    while (i > oldest && early->ends[(i - 1) % VP_CUDA_UPDATES] >= n)
        i--;
    i %= VP_CUDA_UPDATES;
    early->n_done = early->ends[i];
    if (stream == early->update_stream)
        return VP_OK;
    return vp_cuda_check(
        &early->stream->backend->cuda,
        cudaStreamWaitEvent(stream, early->stream->updated[i], 0), "updating");
}

enum vp_status vp_cuda_early_update_guard(struct vp_cuda_early_update *early,
                                          int index, cudaStream_t stream)
{
    const struct vp_program *program = early->program;
    const struct vp_call *call = &program->calls[early->list][index];

    if (call->phase != VP_PHASE_W)
        return VP_OK;
    for (int i = early->n_final; i > early->n_done; i--) {
        int tensor = early->order[i - 1].tensor;

        if (!writes_grad(program, call, grad_of(&early->step->tensors[tensor])))
            continue;
        if (i > early->n_launched)
            VP_TRY(launch_updates(early));
        return wait_for(early, i, stream);
    }
    return VP_OK;
}

/* Waits for the updates even if a launch failed: a stream that was forked in a
 * capture must be joined before the capture ends. */
enum vp_status vp_cuda_early_update_end(struct vp_cuda_early_update *early,
                                        int n_calls)
{
    struct vp_cuda_stream *stream = early->stream;
    enum vp_status st, joined = VP_OK;

    early->n_final = count_final(early, n_calls);
    st = launch_updates(early);
    if (early->forked)
        joined = follow(early, stream->stream, early->update_stream,
                        stream->join);
    free(early->order);
    return st != VP_OK ? st : joined;
}
