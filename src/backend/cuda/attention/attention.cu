/* vpipe's own attention: out = dropout(softmax(scale q k^T, masked)) v. Chooses
 * between the sets of kernels.
 *
 * No matrix of scores is stored. Forward keeps the log-sum-exp of each query;
 * backward computes the scores again:
 *   p  = exp(scale q k^T - lse),  keep = dropout's factor
 *   dv = (keep p)^T dout,  ds = p (keep (dout v^T) - delta)
 *   dq = scale ds k,  dk = scale ds^T q
 * where delta = dout . out = the sum over keys of p keep (dout v^T). */
#include "backend/cuda/attention/attention.cuh"

template <typename P>
static P *column(P *base, int64_t col, enum vp_dtype dtype)
{
    return base ? base + col * vp_dtype_bytes(dtype) : NULL;
}

/* Columns of packed inputs: q [0, H), k [H, 2H), v [2H, 3H) of in0; or q alone
 * in in0, and k [0, H), v [H, 2H) of in1. */
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

/* Sets sizes and options, but no addresses. */
static struct vp_attention_call sizes_of(const struct vp_graph *graph,
                                         const struct vp_op *op)
{
    struct vp_attention_shape shape = vp_attention_shape_of(graph, op);
    struct vp_attention_call x = {};

    x.dtype = shape.dtype;
    x.batch = shape.batch;
    x.heads = shape.heads;
    x.dim = shape.dim;
    x.q_len = shape.q_len;
    x.k_len = shape.k_len;
    x.ld_out = graph->values[op->out].cols;
    x.scale = op->attr.scale;
    x.causal = shape.causal;
    return x;
}

static struct vp_attention_call attention_of(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    struct vp_attention_call x = sizes_of(args->graph, args->op);
    char *scratch = (char *)args->scratch +
                    vp_attention_sums_bytes(args->graph, args->op,
                                            vp_cuda_capability());

    x.drop = vp_drop_of(call);
    x.first_head = vp_arg_first_head(args);
    set_inputs(&x, args);
    x.mask = (const int32_t *)args->in[2];
    x.out = args->out;
    x.lse = (float *)args->aux[0];
    x.dout = args->dout;
    x.delta = (float *)scratch;
    x.parts = (float4 *)scratch;
    return x;
}

void vp_cuda_own_attention_f(const struct vp_cuda_call *call)
{
    struct vp_attention_shape shape = vp_attention_shape_of(call->args.graph,
                                                            call->args.op);
    struct vp_attention_call x = attention_of(call);
    int capability = vp_cuda_capability();

    if (vp_attention_takes_short(&shape, capability))
        vp_attention_wgmma_short_f(&x, call->stream);
    else if (vp_attention_takes_wgmma_f(&shape, capability))
        vp_attention_wgmma_f(&x, call->stream);
    else if (vp_attention_mma_takes(&x))
        vp_attention_mma_f(&x, call->stream);
    else
        vp_attention_plain_f(&x, call->stream);
}

void vp_cuda_own_attention_b(const struct vp_cuda_call *call, bool sums)
{
    struct vp_attention_shape shape = vp_attention_shape_of(call->args.graph,
                                                            call->args.op);
    struct vp_attention_call x = attention_of(call);
    int capability = vp_cuda_capability();

    x.sums = sums ? (float *)call->args.scratch : NULL;
    if (vp_attention_takes_short(&shape, capability) && !x.add_q && !x.add_kv)
        vp_attention_wgmma_short(&x, call->stream);
    else if (vp_attention_takes_wgmma_b(&shape, capability))
        vp_attention_wgmma_b(&x, call->stream);
    else if (vp_attention_mma_takes(&x))
        vp_attention_mma_b(&x, call->stream);
    else
        vp_attention_plain_b(&x, call->stream);
}
