/* Chooses between cuDNN's attention and vpipe's own. cuDNN is used where it
 * gives the same bits in every run, follows our definition (two-byte types, no
 * dropout, no key mask) and is not slower. The choice depends only on the
 * operator and the kind of GPU. */
#include "backend/cuda/attention/cudnn.h"
#include "backend/cuda/device.h"

#include <stdlib.h>

/* cuDNN's plan for one shape and phase, or the result that it has none. */
struct vp_cuda_attention {
    struct vp_cuda_attention *next;
    struct vp_attr attr;
    bool packed;
    int64_t cols;
    enum vp_dtype dtype;
    enum vp_phase phase;
    struct vp_cudnn_attention *plan; /* NULL: use vpipe's own kernels */
};

/* ---- Plans -------------------------------------------------------------- */

static bool is_for(const struct vp_cuda_attention *a,
                   const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    const struct vp_attr *x = &a->attr, *y = &args->op->attr;

    return a->phase == call->phase && a->dtype == args->graph->dtype &&
           a->cols == vp_arg_value(args, args->op->out)->cols &&
           a->packed == (args->op->in[1] == VP_NONE) && x->heads == y->heads &&
           x->batch == y->batch && x->q_len == y->q_len &&
           x->k_len == y->k_len && x->causal == y->causal &&
           x->scale == y->scale;
}

/* Returns the plan of cuDNN for this call, or NULL if vpipe's own kernels are
 * used. Plans are made at first use. */
static struct vp_cudnn_attention *find_plan(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    struct vp_cuda *cuda = call->cuda;
    struct vp_cuda_attention *a;
    struct vp_err why = { .text = "" };

    if (!vp_attention_may_use_cudnn(args->graph, args->op, call->phase,
                                    vp_cuda_capability()))
        return NULL;
    for (a = cuda->attentions; a; a = a->next)
        if (is_for(a, call))
            return a->plan;
    a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    *a = (struct vp_cuda_attention){
        .next = cuda->attentions,
        .attr = args->op->attr,
        .packed = args->op->in[1] == VP_NONE,
        .cols = vp_arg_value(args, args->op->out)->cols,
        .dtype = args->graph->dtype,
        .phase = call->phase,
    };
    cuda->attentions = a;
    if (!cuda->cudnn && cudnnCreate(&cuda->cudnn) != CUDNN_STATUS_SUCCESS)
        cuda->cudnn = NULL;
    if (cuda->cudnn &&
        vp_cudnn_attention_create(cuda->cudnn, args->graph, args->op,
                                  call->phase, &a->plan, &why) != VP_OK)
        a->plan = NULL;
    if (a->plan && vp_cudnn_attention_workspace(a->plan) >
                       vp_attention_cudnn_room(args->op, call->phase)) {
        vp_cudnn_attention_free(a->plan);
        a->plan = NULL;
    }
    return a->plan;
}

void vp_cuda_attentions_free(struct vp_cuda *cuda)
{
    while (cuda->attentions) {
        struct vp_cuda_attention *next = cuda->attentions->next;

        vp_cudnn_attention_free(cuda->attentions->plan);
        free(cuda->attentions);
        cuda->attentions = next;
    }
    if (cuda->cudnn)
        cudnnDestroy(cuda->cudnn);
    cuda->cudnn = NULL;
}

/* ---- Calls -------------------------------------------------------------- */

enum vp_status vp_cuda_attention_f(const struct vp_cuda_call *call)
{
    struct vp_cudnn_attention *plan = find_plan(call);

    if (plan)
        return vp_cudnn_attention_run(plan, call->cuda->cudnn, &call->args,
                                      call->args.scratch, call->stream);
    vp_cuda_own_attention_f(call);
    return VP_OK;
}

/* cuDNN overwrites the gradients of all inputs, and can neither add to them nor
 * leave one out. */
static bool writes_all(const struct vp_kargs *args)
{
    bool cross = args->op->in[1] != VP_NONE;

    return args->din[0] && !args->din_add[0] &&
           (!cross || (args->din[1] && !args->din_add[1]));
}

enum vp_status vp_cuda_attention_b(const struct vp_cuda_call *call)
{
    struct vp_cudnn_attention *plan = NULL;

    if (writes_all(&call->args))
        plan = find_plan(call);
    if (plan)
        return vp_cudnn_attention_run(plan, call->cuda->cudnn, &call->args,
                                      call->args.scratch, call->stream);
    vp_cuda_own_attention_b(call, false);
    return VP_OK;
}

/* ---- Bias gradient ------------------------------------------------------ */

/* Returns the W call of the linear that makes the input of the first call, or
 * NULL if it is not among the calls. */
static struct vp_cuda_call *find_linear(struct vp_cuda_call *calls, int n_calls)
{
    vp_val in = calls[0].args.op->in[0];

    for (int i = 1; i < n_calls; i++) {
        const struct vp_op *op = calls[i].args.op;

        if (calls[i].phase == VP_PHASE_W && op->kind == VP_OP_LINEAR &&
            op->out == in)
            return &calls[i];
    }
    return NULL;
}

int vp_cuda_run_attention(struct vp_cuda_call *calls, int n_calls)
{
    const struct vp_kargs *b = &calls[0].args;
    const struct vp_value *in;
    struct vp_cuda_call *w;

    if (!b->din[0] || b->din_add[0])
        return 0;
    w = find_linear(calls, n_calls);
    if (!w || !w->args.dpar[1] ||
        !vp_cuda_is_summed_in_tiles(b->graph, w->args.op, vp_cuda_capability()))
        return 0;
    in = vp_arg_value(b, b->op->in[0]);
    vp_cuda_own_attention_b(&calls[0], true);
    vp_cuda_parts_finish(w->args.dpar[1], b->scratch,
                         in->rows / VP_CUDA_TILE_ROWS, in->cols,
                         b->mb->accumulate, calls[0].stream);
    w->args.dpar[1] = NULL;
    return 1;
}
