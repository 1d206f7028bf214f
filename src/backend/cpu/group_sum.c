/* group_sum and group_copy: sums over the members of a tensor-parallel group. Members
 * add floats, in member order; a BF16 result is rounded once. */
#include "backend/cpu/group_sum.h"

#include "backend/cpu/chunk.h"
#include "backend/cpu/simd.h"

#include <string.h>

struct group_sum {
    const struct vp_kargs *args;
    const struct vp_simd *simd;
    int64_t rows, cols;
    float *sum; /* [rows, cols] */
    const void *from;
    void *to;
    bool add;
    struct vp_chunks chunks;
};

static struct group_sum group_sum_of(const struct vp_kargs *args,
                                     const void *from, void *to, bool add)
{
    const struct vp_value *value = vp_arg_value(args, args->op->out);

    return (struct group_sum){
        .args = args,
        .simd = vp_simd(args->graph->dtype),
        .rows = value->rows,
        .cols = value->cols,
        .from = from,
        .to = to,
        .add = add,
        .chunks = vp_chunks_rows(value->rows, value->cols),
    };
}

static void widen_task(void *ctx, int task, int thread)
{
    const struct group_sum *x = ctx;
    struct vp_range r = vp_chunk(&x->chunks, task);
    int64_t at = r.begin * x->cols, n = (r.end - r.begin) * x->cols;

    (void)thread;
    if (x->simd->dtype == VP_DTYPE_F32)
        memcpy(x->sum + at, (const float *)x->from + at,
               (size_t)n * sizeof(float));
    else
        vp_dtype_expand(x->simd->dtype, x->sum + at,
                        (const uint16_t *)x->from + at, n);
}

/* to = sum + bias, or to += sum if `add`. */
static void finish_task(void *ctx, int task, int thread)
{
    const struct group_sum *x = ctx;
    struct vp_range r = vp_chunk(&x->chunks, task);

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++) {
        void *to = vp_elem(x->simd, x->to, i * x->cols);

        if (x->add)
            x->simd->put_floats(to, x->sum + i * x->cols, 1.0f, true, x->cols);
        else
            x->simd->finish(to, NULL, x->sum + i * x->cols, x->args->par[0],
                            VP_ACT_NONE, x->cols);
    }
}

/* With F32 the sum is computed in the memory of the result or, if it is added
 * to that, in the memory of the input. */
static void run(struct group_sum *x)
{
    const struct vp_members *members = x->args->members;
    bool floats = x->simd->dtype == VP_DTYPE_F32;

    x->sum = !floats ? x->args->scratch : x->add ? (void *)x->from : x->to;
    if (x->sum != x->from)
        vp_pool_run(x->args->pool, x->chunks.n, widen_task, x);
    if (members)
        members->sum(members->ctx, x->args->op, x->sum, x->rows * x->cols);
    if (x->sum != x->to || x->args->par[0])
        vp_pool_run(x->args->pool, x->chunks.n, finish_task, x);
}

void vp_cpu_group_sum_f(const struct vp_kargs *args)
{
    struct group_sum x = group_sum_of(args, args->in[0], args->out, false);

    run(&x);
}

/* May overwrite dout, which no other call reads. */
void vp_cpu_group_copy_b(const struct vp_kargs *args)
{
    struct group_sum x = group_sum_of(args, args->dout, args->din[0],
                                      args->din_add[0]);

    run(&x);
}

/* The bias gradient is the sum of dout over rows, as in a linear layer: a
 * partial sum for each chunk of rows goes to scratch. */
void vp_cpu_group_sum_w(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    const struct vp_value *out = vp_arg_value(args, args->op->out);
    const struct vp_simd *simd = vp_simd(args->graph->dtype);
    int64_t size = vp_chunks_sums(out->rows).size;
    float *sums = (float *)args->scratch + begin / size * out->cols;

    simd->sum_rows(sums, vp_elem_of(simd, args->dout, begin * out->cols),
                   end - begin, out->cols, begin % size != 0, out->cols);
}

void vp_cpu_group_sum_w_end(const struct vp_kargs *args)
{
    const struct vp_value *out = vp_arg_value(args, args->op->out);

    if (args->dpar[0])
        vp_simd(VP_DTYPE_F32)
            ->sum_rows(args->dpar[0], args->scratch,
                       vp_chunks_sums(out->rows).n, out->cols,
                       args->mb->accumulate, out->cols);
}

size_t vp_cpu_group_sum_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_value *out = &graph->values[op->out];

    if (phase == VP_PHASE_W)
        return (size_t)(vp_chunks_sums(out->rows).n * out->cols) *
               sizeof(float);
    return graph->dtype == VP_DTYPE_F32
               ? 0
               : (size_t)(out->rows * out->cols) * sizeof(float);
}
