/* Linear layers: products with what surrounds them. Matrices are row-major here
 * and column-major in a product, so it is asked for in transposed form. */
#include "backend/cuda/product.h"

/* The three sizes of a layer. */
struct size {
    int64_t rows, K, N;
    enum vp_dtype dtype;
};

static struct size size_of(const struct vp_graph *graph, const struct vp_op *op)
{
    const struct vp_value *x = &graph->values[op->in[0]];

    return (struct size){ x->rows, x->cols, graph->values[op->out].cols,
                          graph->dtype };
}

size_t vp_cuda_linear_scratch(const struct vp_graph *graph,
                              const struct vp_op *op, enum vp_phase phase)
{
    struct size size = size_of(graph, op);
    size_t sums = phase == VP_PHASE_F
                      ? 0
                      : vp_cuda_column_scratch(size.rows, size.N);

    return sums > VP_CUDA_WORKSPACE ? sums : VP_CUDA_WORKSPACE;
}

static enum vp_status multiply(const struct vp_cuda_call *call,
                               const struct vp_product *product,
                               const struct vp_operands *operands)
{
    return vp_cuda_multiply(call->cuda, product, operands, call->args.scratch,
                            call->stream);
}

/* The tanh form of GELU comes with the product, of a z that is not rounded yet;
 * not in fp32, whose tanh is an approximation there. */
static bool comes_with_gelu(const struct vp_kargs *args, struct size size)
{
    return args->op->attr.act == VP_ACT_GELU_TANH && args->par[1] &&
           size.dtype != VP_DTYPE_F32 && size.N % 8 == 0;
}

/* z^T [N, rows] = W x^T */
enum vp_status vp_cuda_linear_f(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    struct size size = size_of(args->graph, args->op);
    bool gelu = comes_with_gelu(args, size);
    void *z = args->aux[0];

    VP_TRY(multiply(call,
                    &(struct vp_product){ .m = size.N,
                                          .n = size.rows,
                                          .k = size.K,
                                          .a_t = true,
                                          .type = size.dtype,
                                          .type_out = size.dtype,
                                          .bias = args->par[1],
                                          .gelu = gelu },
                    &(struct vp_operands){ .a = args->par[0],
                                           .b = args->in[0],
                                           .d = z && !gelu ? z : args->out,
                                           .bias = args->par[1],
                                           .z = z }));
    if (z && !gelu)
        vp_cuda_act(args->out, z, args->op->attr.act, size.rows * size.N,
                    size.dtype, call->stream);
    return VP_OK;
}

/* dx^T [K, rows] = W^T dz^T */
static enum vp_status input_grad(const struct vp_cuda_call *call,
                                 const void *dz)
{
    const struct vp_kargs *args = &call->args;
    struct size size = size_of(args->graph, args->op);

    if (!args->din[0])
        return VP_OK;
    return multiply(
        call,
        &(struct vp_product){ .m = size.K,
                              .n = size.rows,
                              .k = size.N,
                              .type = size.dtype,
                              .type_out = size.dtype,
                              .add = args->din_add[0] },
        &(struct vp_operands){ .a = args->par[0], .b = dz, .d = args->din[0] });
}

/* dW^T [K, N] = x^T dz */
static enum vp_status weight_grad(const struct vp_cuda_call *call,
                                  const void *dz)
{
    const struct vp_kargs *args = &call->args;
    struct size size = size_of(args->graph, args->op);

    if (!args->dpar[0])
        return VP_OK;
    return multiply(
        call,
        &(struct vp_product){ .m = size.K,
                              .n = size.N,
                              .k = size.rows,
                              .b_t = true,
                              .type = size.dtype,
                              .type_out = VP_DTYPE_F32,
                              .add = args->mb->accumulate },
        &(struct vp_operands){ .a = args->in[0], .b = dz, .d = args->dpar[0] });
}

/* dz = dout * act'(z), and its column sums in parts. */
static void act_grad(const struct vp_cuda_call *call, void *parts)
{
    const struct vp_kargs *args = &call->args;
    struct size size = size_of(args->graph, args->op);

    vp_cuda_act_grad(args->dz, args->dout, args->aux[0], args->op->attr.act,
                     size.rows, size.N, size.dtype, parts, call->stream);
}

enum vp_status vp_cuda_linear_b(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;

    if (args->dz)
        act_grad(call, NULL);
    return input_grad(call, args->dz ? args->dz : args->dout);
}

enum vp_status vp_cuda_linear_w(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    struct size size = size_of(args->graph, args->op);
    const void *dz = args->dz ? args->dz : args->dout;

    if (args->dpar[1])
        vp_cuda_column_sums(args->dpar[1], dz, size.rows, size.N, size.dtype,
                            args->mb->accumulate, args->scratch, call->stream);
    return weight_grad(call, dz);
}

int vp_cuda_run_linear(const struct vp_cuda_call *calls, int n_calls,
                       enum vp_status *st_out)
{
    const struct vp_kargs *b = &calls[0].args, *w = &calls[1].args;
    struct size size;

    if (n_calls < 2 || calls[0].phase != VP_PHASE_B ||
        calls[1].phase != VP_PHASE_W || b->op != w->op ||
        b->op->kind != VP_OP_LINEAR || !b->dz || b->dz != w->dz || !w->dpar[1])
        return 0;
    size = size_of(b->graph, b->op);
    act_grad(&calls[0], w->scratch);
    vp_cuda_branch(&calls[1]);
    vp_cuda_column_finish(w->dpar[1], w->scratch, size.rows, size.N,
                          w->mb->accumulate, calls[1].stream);
    *st_out = weight_grad(&calls[1], b->dz);
    if (*st_out == VP_OK)
        *st_out = input_grad(&calls[0], b->dz);
    return 2;
}
