/* Runs of calls that one launch does with the same bits.
 *
 *   F  [dropout,] add [, layernorm]: the end of a residual branch.
 *   B  [copy,] layernorm B [, layernorm W] [, dropout B]: the same end in
 *      backward. The copy is that of a gradient which other calls still read.
 *      Also computes the bias gradient of the last linear of the branch.
 *   B  attention B: also computes the bias gradient of the linear before it.
 *
 * The memory plan does not take fusion into account: a call of a run may write
 * to memory that an earlier one reads. Every thread reads its columns of a row
 * before it writes them, so this is harmless if both are the same rows of the
 * same memory. In all other cases the calls are run one by one. */
#include "backend/cuda/rows/rows.cuh"

static bool is(const struct vp_cuda_call *call, enum vp_op_kind kind,
               enum vp_phase phase)
{
    return call->args.op->kind == kind && call->phase == phase;
}

/* True for dropout of a member's slice of columns. The fused kernels cannot do
 * it: they count random bytes from the first column on. */
static bool drops_slices(const struct vp_cuda_call *call)
{
    return vp_call_value(call, call->args.op->out)->spread == VP_SPREAD_COLS;
}

static bool same_shape(const struct vp_cuda_call *a,
                       const struct vp_cuda_call *b)
{
    const struct vp_value *x = vp_call_value(a, a->args.op->out);
    const struct vp_value *y = vp_call_value(b, b->args.op->out);

    return x->rows == y->rows && x->cols == y->cols && x->dtype == y->dtype;
}

/* ---- Memory ------------------------------------------------------------- */

/* Memory that a run reads or writes. `by_row`: each thread accesses its own
 * elements of a tensor [rows, cols] only. */
struct span {
    const char *begin;
    int64_t n_bytes;
    bool written, by_row;
};

/* All memory that a run reads and writes, except weights and their gradients,
 * which never overlap it. */
struct spans {
    struct span span[8];
    int n;
    int64_t n_bytes; /* size of a tensor [rows, cols] */
};

static void note(struct spans *spans, const void *p, int64_t n_bytes,
                 bool written, bool by_row)
{
    struct span span = { (const char *)p, n_bytes, written, by_row };

    if (p)
        spans->span[spans->n++] = span;
}

static void reads(struct spans *spans, const void *tensor)
{
    note(spans, tensor, spans->n_bytes, false, true);
}

static void writes(struct spans *spans, const void *tensor)
{
    note(spans, tensor, spans->n_bytes, true, true);
}

static bool conflict(const struct span *a, const struct span *b)
{
    if ((!a->written && !b->written) || a->begin + a->n_bytes <= b->begin ||
        b->begin + b->n_bytes <= a->begin)
        return false;
    return a->begin != b->begin || !a->by_row || !b->by_row;
}

static bool any_conflict(const struct spans *spans)
{
    for (int i = 0; i < spans->n; i++)
        for (int j = 0; j < i; j++)
            if (conflict(&spans->span[i], &spans->span[j]))
                return true;
    return false;
}

/* ---- Forward ------------------------------------------------------------ */

/* True if the first input of `to` is the output of `from`. */
static bool feeds(const struct vp_cuda_call *from,
                  const struct vp_cuda_call *to)
{
    return from->args.op->out == to->args.op->in[0] &&
           from->args.out == to->args.in[0];
}

/* `drop` may be NULL: no dropout. */
static struct vp_residual residual_of(const struct vp_cuda_call *drop,
                                      const struct vp_cuda_call *add)
{
    const struct vp_value *out = vp_call_value(add, add->args.op->out);
    struct vp_residual res = {};

    res.x = drop ? drop->args.in[0] : add->args.in[0];
    res.trunk = add->args.in[1];
    res.sum = add->args.out;
    res.rows = out->rows;
    res.cols = out->cols;
    if (!drop)
        return res;
    res.has_drop = true;
    res.drop = vp_drop_of(drop);
    if (!drop->out_is_temporary ||
        !vp_graph_reader(add->args.graph, drop->args.op->out))
        res.dropped = drop->args.out;
    return res;
}

static struct spans spans_of(const struct vp_residual *res, int64_t n_bytes)
{
    struct spans spans = {};

    spans.n_bytes = n_bytes;
    reads(&spans, res->x);
    reads(&spans, res->trunk);
    writes(&spans, res->dropped);
    writes(&spans, res->sum);
    return spans;
}

/* One thread per pack. The number of packs fits in 32 bits. */
template <typename T, int N>
static __global__ void residual_kernel(struct vp_residual res)
{
    uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t packs = (uint32_t)res.cols / N;
    float x[N];

    uint32_t row = thread / packs, col = thread % packs * N;
    vp_residual_pack<T, N> in;
    vp_drop_words<N> words = {};

    if (row >= res.rows)
        return;
    in = vp_read_residual<T, N>(res, row, col);
    if (res.has_drop)
        words = vp_words_of<N>(res.drop, vp_drop_row_of(res.drop, row), col);
    vp_end_residual<T, N>(x, in, words, res, row, col);
}

template <typename T, int N>
static void launch_packs(const struct vp_residual *res, cudaStream_t stream)
{
    unsigned threads = 256;
    unsigned blocks = (unsigned)vp_parts_of(res->rows * (res->cols / N),
                                            threads);

    residual_kernel<T, N><<<blocks, threads, 0, stream>>>(*res);
}

template <typename T>
static void launch_residual(const struct vp_residual *res, cudaStream_t stream)
{
    if (vp_fits_packs<T>(res->cols))
        launch_packs<T, vp_vec<T>::N>(res, stream);
    else
        launch_packs<T, 1>(res, stream);
}

static bool run_residual(const struct vp_cuda_call *drop,
                         const struct vp_cuda_call *add)
{
    const struct vp_value *out = vp_call_value(add, add->args.op->out);
    struct vp_residual res = residual_of(drop, add);
    struct spans spans = spans_of(
        &res, vp_value_bytes(add->args.graph, add->args.op->out));

    if (any_conflict(&spans))
        return false;
    VP_WITH_TYPE(out->dtype, launch_residual<T>(&res, add->stream));
    return true;
}

static bool run_norm(const struct vp_cuda_call *drop,
                     const struct vp_cuda_call *add,
                     const struct vp_cuda_call *norm)
{
    const struct vp_value *out = vp_call_value(norm, norm->args.op->out);
    struct vp_norm all = vp_cuda_norm_of(norm);
    struct spans spans;

    all.in = residual_of(drop, add);
    spans = spans_of(&all.in,
                     vp_value_bytes(add->args.graph, add->args.op->out));
    writes(&spans, all.out);
    note(&spans, all.stat, out->rows * 2 * (int64_t)sizeof(float), true, false);
    return !any_conflict(&spans) &&
           vp_cuda_norm(&all, out->dtype, norm->stream);
}

static int run_forward(const struct vp_cuda_call *calls, int n_calls)
{
    const struct vp_cuda_call *drop = NULL, *add, *norm;
    int n = 0;

    if (is(&calls[n], VP_OP_DROPOUT, VP_PHASE_F) && !drops_slices(&calls[n]))
        drop = &calls[n++];
    if (n == n_calls || !is(&calls[n], VP_OP_ADD, VP_PHASE_F) ||
        (drop &&
         (!feeds(drop, &calls[n]) || calls[n].args.in[1] == drop->args.out)))
        return 0;
    add = &calls[n++];
    norm = &calls[n];
    if (n < n_calls && is(norm, VP_OP_LAYERNORM, VP_PHASE_F) &&
        feeds(add, norm) && run_norm(drop, add, norm))
        return n + 1;
    return drop && run_residual(drop, add) ? n : 0;
}

/* ---- Backward ----------------------------------------------------------- */

/* The calls of a run in backward; NULL: not part of it. */
struct grad_run {
    const struct vp_cuda_call *copy, *norm, *w, *drop;
    /* W later in the list, whose bias gradient the run computes. */
    struct vp_cuda_call *linear;
    struct vp_cuda_call *end; /* the call after the run */
    int n;
};

/* Returns the value that is added to the trunk just before `norm`, if there is
 * no dropout between them; else VP_NONE. Its gradient must be complete after B
 * of `norm`, so `norm` must be the first operator that reads the sum. */
static vp_val plain_branch(const struct vp_cuda_call *norm)
{
    const struct vp_graph *graph = norm->args.graph;
    vp_val sum = norm->args.op->in[0];
    vp_val branch = VP_NONE;

    for (int i = 0; &graph->ops[i] < norm->args.op; i++) {
        const struct vp_op *op = &graph->ops[i];

        if (op->kind == VP_OP_ADD && op->out == sum)
            branch = op->in[0];
        for (int j = 0; j < VP_MAX_IN; j++)
            if (op->in[j] == sum)
                return VP_NONE;
    }
    return branch;
}

/* Returns the W call of the linear whose output is `branch`, if its bias
 * gradient is the column sums of `grad`, which the run writes; else NULL. */
static struct vp_cuda_call *find_linear(const struct grad_run *run,
                                        vp_val branch, const void *grad,
                                        const struct vp_cuda_call *end)
{
    const struct vp_value *out = vp_call_value(run->norm,
                                               run->norm->args.op->out);
    struct vp_cuda_call *call = run->end;

    if (branch == VP_NONE ||
        !vp_cuda_norm_sums_columns(out->cols, out->dtype) ||
        !vp_graph_reader(run->norm->args.graph, branch))
        return NULL;
    for (; call < end; call++)
        if (is(call, VP_OP_LINEAR, VP_PHASE_W) &&
            call->args.op->out == branch && call->args.dout == grad)
            return call->args.dpar[1] && !call->args.dz ? call : NULL;
    return NULL;
}

static struct grad_run find_grad_run(struct vp_cuda_call *calls, int n_calls)
{
    struct grad_run run = {};
    struct vp_cuda_call *call = calls, *end = calls + n_calls;

    if (is(call, VP_OP_COPY, VP_PHASE_B) && !call->args.din_add[0])
        run.copy = call++;
    if (call == end || !is(call, VP_OP_LAYERNORM, VP_PHASE_B) ||
        !call->args.din[0])
        return run;
    if (run.copy &&
        (!call->args.din_add[0] || call->args.din[0] != run.copy->args.din[0] ||
         !same_shape(call, run.copy)))
        return run;
    run.norm = call++;
    if (call < end && is(call, VP_OP_LAYERNORM, VP_PHASE_W) &&
        call->args.op == run.norm->args.op &&
        call->args.dout == run.norm->args.dout && vp_cuda_norm_wants_w(call))
        run.w = call++;
    if (call < end && is(call, VP_OP_DROPOUT, VP_PHASE_B) &&
        !drops_slices(call) && call->args.dout == run.norm->args.din[0] &&
        call->args.din[0] && !call->args.din_add[0] &&
        same_shape(call, run.norm))
        run.drop = call++;
    run.end = call;
    run.n = (int)(call - calls);
    if (run.w && run.drop)
        run.linear = find_linear(&run, run.drop->args.op->in[0],
                                 run.drop->args.din[0], end);
    else if (run.w)
        run.linear = find_linear(&run, plain_branch(run.norm),
                                 run.norm->args.din[0], end);
    return run;
}

static struct vp_norm_grad grad_of(const struct grad_run *run)
{
    struct vp_norm_grad grad = vp_cuda_norm_grad_of(run->norm);

    if (run->copy)
        grad.base = run->copy->args.dout;
    if (run->w)
        grad.parts = (float *)run->w->args.scratch;
    grad.n_sums = run->linear ? 3 : 2;
    if (run->drop) {
        grad.drop = vp_drop_of(run->drop);
        grad.dbranch = run->drop->args.din[0];
    }
    return grad;
}

static bool grad_conflict(const struct vp_norm_grad *grad, int64_t n_bytes)
{
    int64_t n_parts = vp_norm_parts(grad->rows);
    struct spans spans = {};

    spans.n_bytes = n_bytes;
    reads(&spans, grad->x);
    reads(&spans, grad->dout);
    reads(&spans, grad->base);
    note(&spans, grad->stat, grad->rows * 2 * (int64_t)sizeof(float), false,
         false);
    writes(&spans, grad->dx);
    writes(&spans, grad->dbranch);
    writes(&spans, grad->recomputed_out);
    note(&spans, grad->parts,
         n_parts * grad->n_sums * grad->cols * (int64_t)sizeof(float), true,
         false);
    return any_conflict(&spans);
}

static bool run_grad(const struct grad_run *run)
{
    const struct vp_cuda_call *norm = run->norm;
    vp_val out = norm->args.op->out;
    struct vp_norm_grad grad = grad_of(run);

    if (grad_conflict(&grad, vp_value_bytes(norm->args.graph, out)) ||
        !vp_cuda_norm_grad(&grad, vp_call_value(norm, out)->dtype,
                           norm->stream))
        return false;
    if (!run->w)
        return true;
    vp_cuda_wgrad_stream_fork(run->w);
    vp_cuda_norm_finish(run->w, run->linear ? (float *)run->linear->args.dpar[1]
                                            : NULL);
    if (run->linear)
        run->linear->args.dpar[1] = NULL;
    return true;
}

static int run_backward(struct vp_cuda_call *calls, int n_calls)
{
    struct grad_run run;

    if (is(calls, VP_OP_ATTENTION, VP_PHASE_B))
        return vp_cuda_run_attention(calls, n_calls);
    run = find_grad_run(calls, n_calls);
    if (run.n > 1 && run_grad(&run))
        return run.n;
    if (!run.drop)
        return 0;
    run.drop = NULL;
    run.linear = NULL;
    run.n--;
    return run.n > 1 && run_grad(&run) ? run.n : 0;
}

int vp_cuda_run_fused(struct vp_cuda_call *calls, int n_calls)
{
    if (n_calls < 2)
        return 0;
    return calls->phase == VP_PHASE_F ? run_forward(calls, n_calls)
                                      : run_backward(calls, n_calls);
}
