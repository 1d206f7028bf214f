/* Our own attention: softmax(scale q k^T, masked) with dropout, times v.
 *
 * No matrix of scores is stored. Forward keeps the log-sum-exp of each query;
 * backward computes the scores again:
 *   p  = exp(scale q k^T - lse),  keep = dropout's factor
 *   dv = (keep p)^T dout,  ds = p (keep (dout v^T) - delta)
 *   dq = scale ds k,  dk = scale ds^T q
 * where delta = dout . out = the sum over keys of p keep (dout v^T). */
#include "backend/cuda/attention/attention.cuh"

#include "base/memory.h"

template <typename P>
static P *column(P *base, int64_t col, enum vp_dtype dtype)
{
    return base ? base + col * vp_dtype_bytes(dtype) : NULL;
}

/* Packed columns: q [0, H), k [H, 2H), v [2H, 3H); or q alone in in0 and
 * k [0, H), v [H, 2H) in in1. */
static void set_inputs(struct vp_attention_call *x, const struct vp_kargs *args)
{
    int64_t H = x->ld_out;
    int from = args->op->in[1] != VP_NONE ? 1 : 0; /* input with the keys */
    int64_t first_key = from ? 0 : H;
    const char *kv = (const char *)args->in[from];
    char *dkv = (char *)args->din[from];

    x->ld_q = vp_arg_value(args, args->op->in[0])->cols;
    x->ld_kv = vp_arg_value(args, args->op->in[from])->cols;
    x->q = args->in[0];
    x->k = column(kv, first_key, x->dtype);
    x->v = column(kv, first_key + H, x->dtype);
    x->dq = args->din[0];
    x->dk = column(dkv, first_key, x->dtype);
    x->dv = column(dkv, first_key + H, x->dtype);
    x->add_q = args->din_add[0];
    x->add_kv = args->din_add[from];
}

/* Sizes, not where anything is. */
static struct vp_attention_call shape_of(const struct vp_graph *graph,
                                         const struct vp_op *op)
{
    const struct vp_attr *attr = &op->attr;
    const struct vp_value *out = &graph->values[op->out];
    struct vp_attention_call x = {};

    x.dtype = out->dtype;
    x.batch = attr->batch;
    x.heads = attr->heads;
    x.dim = (int)(out->cols / attr->heads);
    x.q_len = (int)attr->q_len;
    x.k_len = (int)attr->k_len;
    x.ld_out = out->cols;
    x.scale = attr->scale;
    x.causal = attr->causal;
    return x;
}

bool vp_cuda_own_attention_sums(const struct vp_graph *graph,
                                const struct vp_op *op)
{
    struct vp_attention_call x = shape_of(graph, op);

    return op->in[1] == VP_NONE && x.q_len % VP_CUDA_TILE_ROWS == 0 &&
           vp_attention_wgmma_short_takes(&x);
}

/* They come first in the scratch, if they can be wanted. */
static size_t sums_bytes(const struct vp_graph *graph, const struct vp_op *op)
{
    const struct vp_value *in = &graph->values[op->in[0]];

    return vp_cuda_own_attention_sums(graph, op)
               ? vp_cuda_tile_scratch(in->rows, in->cols)
               : 0;
}

static struct vp_attention_call attention_of(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    struct vp_attention_call x = shape_of(args->graph, args->op);
    char *scratch = (char *)args->scratch + sums_bytes(args->graph, args->op);

    x.drop = vp_drop_of(call);
    set_inputs(&x, args);
    x.mask = (const int32_t *)args->in[2];
    x.out = args->out;
    x.lse = (float *)args->aux[0];
    x.dout = args->dout;
    x.delta = (float *)scratch;
    x.parts = (float4 *)scratch;
    return x;
}

size_t vp_cuda_own_attention_scratch(const struct vp_graph *graph,
                                     const struct vp_op *op,
                                     enum vp_phase phase)
{
    struct vp_attention_call x = shape_of(graph, op);
    size_t n_bytes = (size_t)(x.batch * x.q_len * x.heads) * sizeof(float);

    if (phase != VP_PHASE_B)
        return 0;
    if (vp_attention_wgmma_b_takes(&x))
        n_bytes = vp_attention_wgmma_b_scratch(&x);
    return vp_align_up(n_bytes, VP_TENSOR_ALIGN) + sums_bytes(graph, op);
}

bool vp_cuda_own_attention_is_best(const struct vp_graph *graph,
                                   const struct vp_op *op, enum vp_phase phase)
{
    struct vp_attention_call x = shape_of(graph, op);

    return phase == VP_PHASE_B && vp_attention_wgmma_b_takes(&x);
}

void vp_cuda_own_attention_f(const struct vp_cuda_call *call)
{
    struct vp_attention_call x = attention_of(call);

    if (vp_attention_wgmma_short_f_takes(&x))
        vp_attention_wgmma_short_f(&x, call->stream);
    else if (vp_attention_wgmma_f_takes(&x))
        vp_attention_wgmma_f(&x, call->stream);
    else if (vp_attention_mma_takes(&x))
        vp_attention_mma_f(&x, call->stream);
    else
        vp_attention_plain_f(&x, call->stream);
}

void vp_cuda_own_attention_b(const struct vp_cuda_call *call, bool sums)
{
    struct vp_attention_call x = attention_of(call);

    x.sums = sums ? (float *)call->args.scratch : NULL;
    if (vp_attention_wgmma_short_takes(&x))
        vp_attention_wgmma_short(&x, call->stream);
    else if (vp_attention_wgmma_b_takes(&x))
        vp_attention_wgmma_b(&x, call->stream);
    else if (vp_attention_mma_takes(&x))
        vp_attention_mma_b(&x, call->stream);
    else
        vp_attention_plain_b(&x, call->stream);
}
