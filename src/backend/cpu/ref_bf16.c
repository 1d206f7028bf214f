/* Reference kernels for BF16: they widen the inputs to float, run the reference
 * kernel in float and round the results. Each tensor that a kernel writes is
 * rounded once, and nothing within the kernel is. */
#include "backend/cpu/kernel.h"

/* The most BF16 tensors that a call may have. */
enum { MOST = 4 + 2 * VP_MAX_IN + VP_MAX_AUX + VP_MAX_PARAM };

/* The float copy of a BF16 tensor, in scratch. */
struct wide {
    void *narrow;
    float *wide;
    int64_t n;
    bool written; /* the kernel writes it: round it afterwards */
};

struct call {
    struct wide at[MOST];
    int n;
    float *free; /* the rest of the scratch */
};

/* Returns the float copy of `narrow`. Arguments with the same address share a
 * copy. */
static void *widen(struct call *call, const void *narrow, int64_t n,
                   bool written)
{
    struct wide *wide = call->at;

    if (!narrow)
        return NULL;
    while (wide < call->at + call->n && wide->narrow != narrow)
        wide++;
    if (wide == call->at + call->n) {
        *wide = (struct wide){ (void *)narrow, call->free, n, false };
        vp_dtype_expand(VP_DTYPE_BF16, wide->wide, narrow, n);
        call->free += n;
        call->n++;
    }
    wide->written |= written;
    return wide->wide;
}

/* Returns the float copy of a BF16 value, and other values (ids, statistics)
 * unchanged. */
static void *widen_value(struct call *call, const struct vp_graph *graph,
                         vp_val value, const void *narrow, bool written)
{
    const struct vp_value *v = &graph->values[value == VP_NONE ? 0 : value];

    if (value == VP_NONE || v->dtype != VP_DTYPE_BF16)
        return (void *)narrow;
    return widen(call, narrow, v->rows * v->cols, written);
}

static void widen_all(struct call *call, const struct vp_kargs *from,
                      struct vp_kargs *to, enum vp_phase phase)
{
    const struct vp_graph *graph = from->graph;
    const struct vp_op *op = from->op;
    bool f = phase == VP_PHASE_F, b = phase == VP_PHASE_B;

    for (int k = 0; k < VP_MAX_IN; k++) {
        to->in[k] = widen_value(call, graph, op->in[k], from->in[k], false);
        to->din[k] = widen_value(call, graph, op->in[k], from->din[k], b);
    }
    for (int k = 0; k < VP_MAX_AUX; k++)
        to->aux[k] = widen_value(call, graph, op->aux[k], from->aux[k], f);
    for (int k = 0; k < VP_MAX_PARAM; k++)
        if (op->par[k] != VP_NONE)
            to->par[k] = widen(call, from->par[k],
                               graph->params[op->par[k]].rows *
                                   graph->params[op->par[k]].cols,
                               false);
    to->out = widen_value(call, graph, op->out, from->out, f);
    to->dout = widen_value(call, graph, op->out, from->dout, false);
    to->dz = widen_value(call, graph, op->out, from->dz, b);
    to->recomputed_out = widen_value(call, graph, op->out, from->recomputed_out,
                                     b);
}

static size_t float_bytes(const struct vp_graph *graph, vp_val value)
{
    return value == VP_NONE ? 0
                            : (size_t)(graph->values[value].rows *
                                       graph->values[value].cols) *
                                  sizeof(float);
}

/* Returns the bytes of float copies of all tensors, as if none shared
 * memory. */
static size_t wide_bytes(const struct vp_graph *graph, const struct vp_op *op)
{
    size_t n_bytes = 4 * float_bytes(graph, op->out);

    for (int k = 0; k < VP_MAX_IN; k++)
        n_bytes += 2 * float_bytes(graph, op->in[k]);
    for (int k = 0; k < VP_MAX_AUX; k++)
        n_bytes += float_bytes(graph, op->aux[k]);
    for (int k = 0; k < VP_MAX_PARAM; k++)
        if (op->par[k] != VP_NONE)
            n_bytes += (size_t)(graph->params[op->par[k]].rows *
                                graph->params[op->par[k]].cols) *
                       sizeof(float);
    return vp_align_up(n_bytes, VP_TENSOR_ALIGN);
}

static void run(const struct vp_kargs *args, enum vp_phase phase)
{
    struct call call = { .free = args->scratch };
    struct vp_kargs wide = *args;

    widen_all(&call, args, &wide, phase);
    wide.scratch = (char *)args->scratch + wide_bytes(args->graph, args->op);
    vp_cpu_ref_f32.fn[args->op->kind][phase](&wide);
    for (int i = 0; i < call.n; i++)
        if (call.at[i].written)
            vp_dtype_round(VP_DTYPE_BF16, call.at[i].narrow, call.at[i].wide,
                           call.at[i].n);
}

static void forward(const struct vp_kargs *args)
{
    run(args, VP_PHASE_F);
}

static void backward(const struct vp_kargs *args)
{
    run(args, VP_PHASE_B);
}

static void weights(const struct vp_kargs *args)
{
    run(args, VP_PHASE_W);
}

static size_t scratch_bytes(const struct vp_graph *graph,
                            const struct vp_op *op, enum vp_phase phase,
                            int n_threads)
{
    return wide_bytes(graph, op) +
           vp_cpu_ref_f32.scratch_bytes(graph, op, phase, n_threads);
}

/* For copies, widening and rounding are exact. */
const struct vp_cpu_kernels vp_cpu_ref_bf16 = {
    .fn = {
        [VP_OP_EMBED] = { [VP_PHASE_F] = forward, [VP_PHASE_W] = weights },
        [VP_OP_LINEAR] = { forward, backward, weights },
        [VP_OP_LAYERNORM] = { forward, backward, weights },
        [VP_OP_ATTENTION] = { forward, backward },
        [VP_OP_CACHED_ATTENTION] = { forward },
        [VP_OP_CACHED_CROSS_ATTENTION] = { forward },
        [VP_OP_DROPOUT] = { forward, backward },
        [VP_OP_ADD] = { forward },
        [VP_OP_SCALE] = { forward, backward },
        [VP_OP_GATHER] = { forward, backward },
        [VP_OP_CROSS_ENTROPY] = { forward, backward },
        [VP_OP_COPY] = { forward, backward },
        [VP_OP_GROUP_SUM] = { [VP_PHASE_F] = forward,
                              [VP_PHASE_W] = weights },
        [VP_OP_GROUP_COPY] = { forward, backward },
        [VP_OP_REDUCE_SCATTER] = { forward, backward, weights },
        [VP_OP_ALL_GATHER] = { forward, backward },
    },
    .scratch_bytes = scratch_bytes,
};
