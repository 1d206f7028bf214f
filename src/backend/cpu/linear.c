/* linear: out = act(x weight^T + bias).
 * x: [rows, K], weight: [N, K], bias: [N], out and z: [rows, N]. */
#include "backend/cpu/chunk.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/rows.h"
#include "backend/cpu/simd.h"

struct linear {
    const struct vp_kargs *args;
    const struct vp_simd *simd;
    int64_t rows, K, N;
    enum vp_act act;
    const float *bias; /* or NULL */
    float *z, *out;    /* forward; z is out without an activation */
    const float *dz;   /* backward: the gradient of z */
};

static struct linear linear_of(const struct vp_kargs *args)
{
    const struct vp_value *in = vp_arg_value(args, args->op->in[0]);

    return (struct linear){
        .args = args,
        .simd = vp_simd(),
        .rows = in->rows,
        .K = in->cols,
        .N = vp_arg_value(args, args->op->out)->cols,
        .act = args->op->attr.act,
        .bias = args->par[1],
        .z = args->aux[0] ? args->aux[0] : args->out,
        .out = args->out,
        .dz = args->dz ? args->dz : args->dout,
    };
}

/* ---- F ------------------------------------------------------------------ */

/* Bias and activation of a finished tile. */
static void finish_tile(void *ctx, int64_t row, int64_t rows, int64_t col,
                        int64_t cols)
{
    const struct linear *x = ctx;

    for (int64_t i = row; i < row + rows; i++) {
        float *z = x->z + i * x->N + col;

        if (x->bias)
            x->simd->add(z, z, x->bias + col, cols);
        if (x->act != VP_ACT_NONE)
            x->simd->act(x->out + i * x->N + col, z, x->act, cols);
    }
}

void vp_cpu_linear_f(const struct vp_kargs *args)
{
    struct linear x = linear_of(args);
    struct vp_gemm product = {
        .m = x.rows,
        .n = x.N,
        .k = x.K,
        .a = { args->in[0], x.K, false },
        .b = { args->par[0], x.K, true },
        .alpha = 1.0f,
        .c = x.z,
        .ldc = x.N,
        .finish = finish_tile,
        .ctx = &x,
    };

    vp_cpu_gemm(args->pool, &product);
}

/* ---- B ------------------------------------------------------------------ */

static void dz_rows(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    struct linear x = linear_of(args);
    const float *dout = args->dout, *z = args->aux[0];
    float *dz = args->dz;
    int64_t at = begin * x.N;

    x.simd->act_grad(dz + at, dout + at, z + at, x.act, (end - begin) * x.N);
    if (args->recomputed_out)
        x.simd->act((float *)args->recomputed_out + at, z + at, x.act,
                    (end - begin) * x.N);
}

void vp_cpu_linear_b(const struct vp_kargs *args)
{
    struct linear x = linear_of(args);
    struct vp_rows_call dz = { { dz_rows, NULL }, args };
    struct vp_gemm product = {
        .m = x.rows,
        .n = x.K,
        .k = x.N,
        .a = { x.dz, x.N, false },
        .b = { args->par[0], x.K, false },
        .alpha = 1.0f,
        .beta = args->din_add[0] ? 1.0f : 0.0f,
        .c = args->din[0],
        .ldc = x.K,
    };

    if (args->dz)
        vp_cpu_rows_run(&dz, 1);
    if (args->din[0])
        vp_cpu_gemm(args->pool, &product);
}

/* ---- W ------------------------------------------------------------------ */

/* The bias gradient sums dz over rows: partial sums of row chunks go to
 * scratch [chunks, N]. */
static void bias_rows(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    struct linear x = linear_of(args);
    int64_t size = vp_chunks_sums(x.rows).size;
    float *sums = (float *)args->scratch + begin / size * x.N;

    x.simd->sum_rows(sums, x.dz + begin * x.N, end - begin, x.N,
                     begin % size != 0, x.N);
}

static void bias_end(const struct vp_kargs *args)
{
    struct linear x = linear_of(args);

    x.simd->sum_rows(args->dpar[1], args->scratch, vp_chunks_sums(x.rows).n,
                     x.N, args->mb->accumulate, x.N);
}

void vp_cpu_linear_w(const struct vp_kargs *args)
{
    struct linear x = linear_of(args);
    struct vp_rows_call bias = { { bias_rows, bias_end }, args };
    struct vp_gemm product = {
        .m = x.N,
        .n = x.K,
        .k = x.rows,
        .a = { x.dz, x.N, true },
        .b = { args->in[0], x.K, false },
        .alpha = 1.0f,
        .beta = args->mb->accumulate ? 1.0f : 0.0f,
        .c = args->dpar[0],
        .ldc = x.K,
    };

    if (args->dpar[1])
        vp_cpu_rows_run(&bias, 1);
    if (args->dpar[0])
        vp_cpu_gemm(args->pool, &product);
}

size_t vp_cpu_linear_scratch(const struct vp_graph *graph,
                             const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_value *out = &graph->values[op->out];

    if (phase != VP_PHASE_W || op->par[1] == VP_NONE)
        return 0;
    return (size_t)vp_chunks_sums(out->rows).n * (size_t)out->cols *
           sizeof(float);
}
