/* reduce_scatter and all_gather: they convert between a value with all rows,
 * [rows, C], and slices of rows, one for each member of a tensor-parallel
 * group. Members add floats, in member order; a BF16 result is rounded once.
 * Gathering only copies.
 *
 *            rows            slice of member 0 | 1 | 2, whose last row is padding
 *   F  x  [ 0 1 2 3 4 ]  ->  [ 0 1 ] [ 2 3 ] [ 4 . ]     reduce_scatter
 *   F     [ 0 1 2 3 4 ]  <-  [ 0 1 ] [ 2 3 ] [ 4 . ]     all_gather
 *
 * B has the opposite direction. */
#include "backend/cpu/row_slices.h"

#include "backend/cpu/chunk.h"
#include "backend/cpu/group_sum.h"
#include "backend/cpu/simd.h"

#include <string.h>

struct row_slices {
    const struct vp_kargs *args;
    const struct vp_simd *simd;
    int64_t rows, cols;   /* shape of the whole value */
    int64_t slice;        /* rows of a slice, with padding */
    int64_t first, n_own; /* this member's rows of the whole, without padding */
    const void *from;
    float *sum; /* [rows, cols] */
    void *to;   /* [slice, cols] */
    bool add;
    struct vp_chunks chunks;
};

static struct row_slices slices_of(const struct vp_kargs *args, vp_val slice)
{
    const struct vp_value *value = vp_arg_value(args, slice);

    return (struct row_slices){
        .args = args,
        .simd = vp_simd(args->graph->dtype),
        .rows = value->whole_rows,
        .cols = value->cols,
        .slice = value->rows,
        .first = vp_arg_first_row(args, slice),
        .n_own = vp_arg_n_rows(args, slice),
    };
}

static void widen_task(void *ctx, int task, int thread)
{
    const struct row_slices *x = ctx;
    struct vp_range r = vp_chunk(&x->chunks, task);
    int64_t at = r.begin * x->cols, n = (r.end - r.begin) * x->cols;

    (void)thread;
    vp_dtype_expand(x->simd->dtype, x->sum + at, (const uint16_t *)x->from + at,
                    n);
}

/* to = sum + bias, or to += sum if `add`, in this member's rows; padding
 * becomes zero. */
static void finish_task(void *ctx, int task, int thread)
{
    const struct row_slices *x = ctx;
    struct vp_range r = vp_chunk(&x->chunks, task);

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++) {
        void *to = vp_elem(x->simd, x->to, i * x->cols);
        const float *sum = x->sum + (x->first + i) * x->cols;

        if (i >= x->n_own && !x->add)
            memset(to, 0, (size_t)(x->cols * vp_dtype_bytes(x->simd->dtype)));
        else if (i < x->n_own && x->add)
            x->simd->put_floats(to, sum, 1.0f, true, x->cols);
        else if (i < x->n_own)
            x->simd->finish(to, NULL, sum, x->args->par[0], VP_ACT_NONE,
                            x->cols);
    }
}

/* With F32 the sum is computed in the memory of the input, which no other call
 * reads. */
static void reduce_scatter(struct row_slices *x)
{
    const struct vp_members *members = x->args->members;

    x->sum = (float *)x->from;
    if (x->simd->dtype != VP_DTYPE_F32) {
        x->sum = x->args->scratch;
        x->chunks = vp_chunks_rows(x->rows, x->cols);
        vp_pool_run(x->args->pool, x->chunks.n, widen_task, x);
    }
    if (members)
        members->reduce_scatter(members->ctx, x->args->op, x->sum,
                                x->rows * x->cols, x->slice * x->cols);
    x->chunks = vp_chunks_rows(x->slice, x->cols);
    vp_pool_run(x->args->pool, x->chunks.n, finish_task, x);
}

/* Without a group, as when blocks are profiled, the slice of member 0 is copied
 * and the other rows are zero. */
static void all_gather(const struct row_slices *x, const void *slice,
                       void *whole)
{
    const struct vp_members *members = x->args->members;
    int64_t row_bytes = x->cols * vp_dtype_bytes(x->simd->dtype);

    if (members) {
        members->all_gather(members->ctx, x->args->op, slice, whole,
                            x->rows * row_bytes, x->slice * row_bytes);
        return;
    }
    memcpy(whole, slice, (size_t)(x->n_own * row_bytes));
    memset((char *)whole + x->n_own * row_bytes, 0,
           (size_t)((x->rows - x->n_own) * row_bytes));
}

void vp_cpu_reduce_scatter_f(const struct vp_kargs *args)
{
    struct row_slices x = slices_of(args, args->op->out);

    x.from = args->in[0];
    x.to = args->out;
    reduce_scatter(&x);
}

/* The input of a reduce_scatter has no other reader, so its gradient is never
 * added to. */
void vp_cpu_reduce_scatter_b(const struct vp_kargs *args)
{
    struct row_slices x = slices_of(args, args->op->out);

    VP_BUG_ON(args->din_add[0]);
    if (args->din[0])
        all_gather(&x, args->dout, args->din[0]);
}

void vp_cpu_all_gather_f(const struct vp_kargs *args)
{
    struct row_slices x = slices_of(args, args->op->in[0]);

    all_gather(&x, args->in[0], args->out);
}

void vp_cpu_all_gather_b(const struct vp_kargs *args)
{
    struct row_slices x = slices_of(args, args->op->in[0]);

    x.from = args->dout;
    x.to = args->din[0];
    x.add = args->din_add[0];
    if (x.to)
        reduce_scatter(&x);
}

size_t vp_cpu_row_slices_scratch(const struct vp_graph *graph,
                                 const struct vp_op *op, enum vp_phase phase)
{
    bool scatters = op->kind == VP_OP_REDUCE_SCATTER;
    const struct vp_value *out = &graph->values[op->out];

    if (phase == VP_PHASE_W)
        return vp_cpu_group_sum_scratch(graph, op, phase);
    if (graph->dtype == VP_DTYPE_F32 ||
        phase != (scatters ? VP_PHASE_F : VP_PHASE_B))
        return 0;
    return (size_t)(out->whole_rows * out->cols) * sizeof(float);
}
