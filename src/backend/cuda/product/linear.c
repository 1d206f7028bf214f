/* Linear layers: products, bias, activation, and their gradients. Matrices are
 * row-major here and column-major in struct vp_product, so products are stated
 * in transposed form. */
#include "backend/cuda/product/few_rows.h"
#include "backend/cuda/product/product.h"
#include "backend/cuda/profile/profile.h"

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

static enum vp_status multiply(const struct vp_cuda_call *call,
                               const struct vp_product *product,
                               const struct vp_operands *operands)
{
    return vp_cuda_multiply(call->cuda, product, operands, call->args.scratch,
                            call->stream);
}

/* The tanh form of GELU is computed by the product's epilogue, from a z that is
 * not rounded. Not in fp32, because the epilogue's tanh is an approximation. */
static bool comes_with_gelu(const struct vp_kargs *args, struct size size)
{
    return args->op->attr.act == VP_ACT_GELU_TANH && args->par[1] &&
           size.dtype != VP_DTYPE_F32 && size.N % 8 == 0;
}

/* Only graphs with a key-value cache use the kernel for few rows: its bits
 * differ from those of a product. */
static bool has_few_rows(const struct vp_kargs *args, struct size size)
{
    return size.rows <= VP_FEW_ROWS && args->graph->cache.n_lines > 0;
}

static void multiply_few_rows(const struct vp_cuda_call *call, struct size size)
{
    const struct vp_kargs *args = &call->args;
    const struct vp_few_rows layer = { .rows = size.rows,
                                       .cols = size.N,
                                       .depth = size.K,
                                       .dtype = size.dtype,
                                       .act = args->op->attr.act,
                                       .x = args->in[0],
                                       .weight = args->par[0],
                                       .bias = args->par[1],
                                       .z = args->aux[0],
                                       .out = args->out };

    vp_cuda_few_rows(&layer, call->stream);
}

/* z^T [N, rows] = W x^T */
enum vp_status vp_cuda_linear_f(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    struct size size = size_of(args->graph, args->op);
    bool gelu = comes_with_gelu(args, size);
    void *z = args->aux[0];

    if (has_few_rows(args, size)) {
        multiply_few_rows(call, size);
        return VP_OK;
    }
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

static void bias_grad(const struct vp_cuda_call *call, const void *dz)
{
    const struct vp_kargs *args = &call->args;
    struct size size = size_of(args->graph, args->op);

    if (vp_cuda_is_summed_in_tiles(args->graph, args->op, vp_cuda_capability()))
        vp_cuda_tile_sums(args->dpar[1], dz, size.rows, size.N, size.dtype,
                          args->mb->accumulate, args->scratch, call->stream);
    else
        vp_cuda_column_sums(args->dpar[1], dz, size.rows, size.N,
                            args->op->attr.act, size.dtype,
                            args->mb->accumulate, args->scratch, call->stream);
}

/* dz = dout * act'(z), and partial column sums of dz unless `parts` is NULL. */
static void act_grad(const struct vp_cuda_call *call, void *parts)
{
    const struct vp_kargs *args = &call->args;
    struct size size = size_of(args->graph, args->op);

    vp_cuda_act_grad(args->dz, args->recomputed_out, args->dout, args->aux[0],
                     args->op->attr.act, size.rows, size.N, size.dtype, parts,
                     call->stream);
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
    const void *dz = args->dz ? args->dz : args->dout;

    if (args->dpar[1])
        bias_grad(call, dz);
    return weight_grad(call, dz);
}

/* Returns the W call of the layer that the first call is B of, or NULL if it is
 * not among the calls. */
static struct vp_cuda_call *find_w(struct vp_cuda_call *calls, int n_calls)
{
    for (int i = 1; i < n_calls; i++)
        if (calls[i].phase == VP_PHASE_W &&
            calls[i].args.op == calls[0].args.op)
            return &calls[i];
    return NULL;
}

/* Completes B when dz has been written and the scratch holds partial sums for
 * the bias gradient. W then does not compute the bias gradient again. */
static enum vp_status end_b(struct vp_cuda_call *b, struct vp_cuda_call *w)
{
    const struct vp_kargs *args = &b->args;
    struct size size = size_of(args->graph, args->op);

    /* The partial sums are in the scratch of B, because the scratch of W may be
     * in use by other calls until W runs. */
    vp_cuda_column_finish(w->args.dpar[1], args->scratch, size.rows, size.N,
                          args->op->attr.act, args->mb->accumulate, b->stream);
    w->args.dpar[1] = NULL;
    return input_grad(b, args->dz);
}

/* True if the two ranges of bytes overlap. */
static bool overlap(const void *a, int64_t n_a, const void *b, int64_t n_b)
{
    return (const char *)a < (const char *)b + n_b &&
           (const char *)b < (const char *)a + n_a;
}

/* True if the input of `after` does not overlap anything that B of the layer
 * before it writes, so that one kernel can do both. */
static bool may_run_together(const struct vp_kargs *after,
                             const struct vp_kargs *b)
{
    int64_t n_read = vp_value_bytes(after->graph, after->op->out);
    int64_t n_written = vp_value_bytes(b->graph, b->op->out);
    size_t n_scratch = vp_cuda_linear_scratch(b->graph, b->op, VP_PHASE_B,
                                              vp_cuda_capability());

    return !overlap(after->dout, n_read, b->dz, n_written) &&
           !overlap(after->dout, n_read, b->recomputed_out, n_written) &&
           !overlap(after->dout, n_read, b->scratch, (int64_t)n_scratch);
}

static bool is_gelu_b(const struct vp_cuda_call *call)
{
    return call->phase == VP_PHASE_B && call->args.op->kind == VP_OP_LINEAR &&
           call->args.op->attr.act == VP_ACT_GELU_ERF &&
           call->args.recomputed_out;
}

static struct vp_gelu_grad gelu_grad_of(const struct vp_kargs *after,
                                        const struct vp_kargs *b)
{
    struct size size = size_of(after->graph, after->op);

    return (struct vp_gelu_grad){ .rows = size.rows,
                                  .cols = size.K,
                                  .depth = size.N,
                                  .dtype = size.dtype,
                                  .x = after->dout,
                                  .w = after->par[0],
                                  .z = b->aux[0],
                                  .dz = b->dz,
                                  .recomputed = b->recomputed_out,
                                  .parts = b->scratch };
}

/* Runs B of a layer together with B of the layer before it, which has GELU. The
 * gradient between them is not stored, so no other call may write or read
 * it. */
static int run_two(struct vp_cuda_call *calls, int n_calls,
                   enum vp_status *st_out)
{
    const struct vp_kargs *after = &calls[0].args, *b = &calls[1].args;
    struct vp_cuda_call *w;
    struct vp_gelu_grad grad;
    int label;

    if (n_calls < 3 || !is_gelu_b(&calls[1]) ||
        after->op->in[0] != b->op->out || after->din[0] != b->dout ||
        after->din_add[0] || !may_run_together(after, b))
        return 0;
    w = find_w(calls + 1, n_calls - 1);
    grad = gelu_grad_of(after, b);
    if (!w || !w->args.dpar[1] || !vp_cuda_multiplies_as(calls->cuda, &grad))
        return 0;
    label = vp_cuda_profile_push(calls->cuda->profile);
    vp_gelu_grad_run(&grad, calls->stream);
    vp_cuda_profile_pop_gelu(calls->cuda->profile, label, &grad);
    *st_out = end_b(&calls[1], w);
    return 2;
}

int vp_cuda_run_linear(struct vp_cuda_call *calls, int n_calls,
                       enum vp_status *st_out)
{
    const struct vp_kargs *b = &calls[0].args;
    struct vp_cuda_call *w;

    if (calls[0].phase != VP_PHASE_B || b->op->kind != VP_OP_LINEAR)
        return 0;
    if (!b->dz)
        return run_two(calls, n_calls, st_out);
    w = find_w(calls, n_calls);
    if (!w || !w->args.dpar[1])
        return 0;
    act_grad(&calls[0], b->scratch);
    *st_out = end_b(&calls[0], w);
    return 1;
}
