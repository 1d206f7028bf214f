/* layernorm: out = xhat * gamma + beta, xhat = (x - mean) / std.
 * x, out: [rows, C]; gamma, beta: [C]; aux0: mean and 1 / std, [rows, 2]. */
#include "backend/cpu/chunk.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/simd.h"

#include <string.h>

struct layernorm {
    const struct vp_kargs *args;
    const struct vp_simd *simd;
    int64_t rows, C;
    const float *x;
    float *stat;
    struct vp_chunks chunks;
};

static struct layernorm layernorm_of(const struct vp_kargs *args)
{
    const struct vp_value *in = vp_arg_value(args, args->op->in[0]);

    return (struct layernorm){
        .args = args,
        .simd = vp_simd(),
        .rows = in->rows,
        .C = in->cols,
        .x = args->in[0],
        .stat = args->aux[0],
        .chunks = vp_chunks_rows(in->rows, in->cols),
    };
}

static void forward_task(void *ctx, int task, int thread)
{
    const struct layernorm *l = ctx;
    struct vp_range r = vp_chunk(&l->chunks, task);
    float *out = l->args->out;

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++)
        l->simd->layernorm(out + i * l->C, l->stat + 2 * i, l->x + i * l->C,
                           l->args->par[0], l->args->par[1],
                           l->args->op->attr.eps, l->C);
}

void vp_cpu_layernorm_f(const struct vp_kargs *args)
{
    struct layernorm l = layernorm_of(args);

    vp_pool_run(args->pool, l.chunks.n, forward_task, &l);
}

static void backward_task(void *ctx, int task, int thread)
{
    const struct layernorm *l = ctx;
    struct vp_range r = vp_chunk(&l->chunks, task);
    const float *dout = l->args->dout;
    float *dx = l->args->din[0];

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++)
        l->simd->layernorm_grad(dx + i * l->C, dout + i * l->C, l->x + i * l->C,
                                l->args->par[0], l->stat + 2 * i,
                                l->args->din_add[0], l->C);
}

void vp_cpu_layernorm_b(const struct vp_kargs *args)
{
    struct layernorm l = layernorm_of(args);

    if (args->din[0])
        vp_pool_run(args->pool, l.chunks.n, backward_task, &l);
}

/* Partial sums of a chunk of rows: dgamma, dbeta in scratch [chunks, 2, C]. */
static void sums_task(void *ctx, int task, int thread)
{
    const struct layernorm *l = ctx;
    struct vp_range r = vp_chunk(&l->chunks, task);
    const float *dout = l->args->dout;
    float *sums = (float *)l->args->scratch + task * 2 * l->C;

    (void)thread;
    memset(sums, 0, (size_t)(2 * l->C) * sizeof(*sums));
    for (int64_t i = r.begin; i < r.end; i++)
        l->simd->layernorm_sums(sums, sums + l->C, dout + i * l->C,
                                l->x + i * l->C, l->stat + 2 * i, l->C);
}

void vp_cpu_layernorm_w(const struct vp_kargs *args)
{
    struct layernorm l = layernorm_of(args);
    const float *sums = args->scratch;

    l.chunks = vp_chunks_sums(l.rows);
    vp_pool_run(args->pool, l.chunks.n, sums_task, &l);
    for (int i = 0; i < 2; i++)
        if (args->dpar[i])
            l.simd->sum_rows(args->dpar[i], sums + i * l.C, l.chunks.n, 2 * l.C,
                             args->mb->accumulate, l.C);
}

size_t vp_cpu_layernorm_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_value *out = &graph->values[op->out];

    if (phase != VP_PHASE_W)
        return 0;
    return (size_t)vp_chunks_sums(out->rows).n * 2 * (size_t)out->cols *
           sizeof(float);
}
