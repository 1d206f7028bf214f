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
    const void *bias; /* or NULL */
    void *z, *out;    /* forward only; z is NULL without an activation */
    const void *dz;   /* backward: the gradient of z */
};

static struct linear linear_of(const struct vp_kargs *args)
{
    const struct vp_value *in = vp_arg_value(args, args->op->in[0]);

    return (struct linear){
        .args = args,
        .simd = vp_simd(args->graph->dtype),
        .rows = in->rows,
        .K = in->cols,
        .N = vp_arg_value(args, args->op->out)->cols,
        .act = args->op->attr.act,
        .bias = args->par[1],
        .z = args->aux[0],
        .out = args->out,
        .dz = args->dz ? args->dz : args->dout,
    };
}

/* Returns the product of a phase, without addresses. With BF16, F and B have no
 * `c`: their results are rounded from float tiles in scratch. W writes
 * floats. */
static struct vp_gemm product_of(const struct vp_graph *graph,
                                 const struct vp_op *op, enum vp_phase phase)
{
    int64_t rows = graph->values[op->in[0]].rows;
    int64_t K = graph->values[op->in[0]].cols, N = graph->values[op->out].cols;
    struct vp_gemm product = { .dtype = graph->dtype, .alpha = 1.0f };

    product.m = phase == VP_PHASE_W ? N : rows;
    product.n = phase == VP_PHASE_F ? N : K;
    product.k = phase == VP_PHASE_F ? K : phase == VP_PHASE_B ? N : rows;
    product.a.ld = phase == VP_PHASE_F ? K : N;
    product.a.transposed = phase == VP_PHASE_W;
    product.b.ld = K;
    product.b.transposed = phase == VP_PHASE_F;
    product.ldc = product.n;
    return product;
}

/* ---- F ------------------------------------------------------------------ */

/* Bias and activation of a finished tile. */
static void finish_tile(void *ctx, int64_t row, int64_t rows, int64_t col,
                        int64_t cols, const float *tile, int64_t ld)
{
    const struct linear *x = ctx;
    const void *bias = x->bias ? vp_elem_of(x->simd, x->bias, col) : NULL;

    for (int64_t i = 0; i < rows; i++) {
        int64_t at = (row + i) * x->N + col;

        x->simd->finish(vp_elem(x->simd, x->out, at),
                        x->z ? vp_elem(x->simd, x->z, at) : NULL, tile + i * ld,
                        bias, x->act, cols);
    }
}

/* Decoding has few rows: reading the weights takes most of the time, and a
 * product that packs them would read them twice. So each element is a dot
 * product, whose bits do not depend on the other rows. Graphs without a cache
 * always use a product. */
enum { FEW_ROWS = 64 };

static bool has_few_rows(const struct vp_graph *graph, const struct vp_op *op)
{
    return graph->values[op->in[0]].rows <= FEW_ROWS &&
           graph->cache.n_lines > 0;
}

/* Returns the memory for the sums [rows, N]; scratch with BF16. */
static float *few_rows_sums(const struct linear *x)
{
    if (x->simd->dtype != VP_DTYPE_F32)
        return x->args->scratch;
    return x->z ? x->z : x->out;
}

struct few_rows {
    const struct linear *linear;
    struct vp_chunks chunks; /* cut of the N columns */
};

static void few_rows_task(void *ctx, int task, int thread)
{
    const struct few_rows *job = ctx;
    const struct linear *x = job->linear;
    struct vp_range r = vp_chunk(&job->chunks, task);
    float *tile = few_rows_sums(x) + r.begin;

    vp_pool_note(x->args->pool, thread, VP_CPU_PRODUCTS);
    x->simd->dots(tile, x->N, x->args->in[0], x->K, x->rows,
                  vp_elem_of(x->simd, x->args->par[0], r.begin * x->K), x->K,
                  r.end - r.begin, x->K);
    vp_pool_note(x->args->pool, thread, VP_CPU_ELEMENTWISE);
    finish_tile((void *)x, 0, x->rows, r.begin, r.end - r.begin, tile, x->N);
}

static void multiply_few_rows(const struct linear *x)
{
    struct few_rows job = { x, vp_chunks_rows(x->N, x->K) };

    vp_pool_run(x->args->pool, job.chunks.n, few_rows_task, &job);
}

void vp_cpu_linear_f(const struct vp_kargs *args)
{
    struct linear x = linear_of(args);
    struct vp_gemm product = product_of(args->graph, args->op, VP_PHASE_F);
    bool floats = product.dtype == VP_DTYPE_F32;

    product.a.data = args->in[0];
    product.b.data = args->par[0];
    if (floats)
        product.c = x.z ? x.z : x.out;
    if (!floats || x.bias || x.act != VP_ACT_NONE)
        product.finish = finish_tile;
    product.ctx = &x;
    product.scratch = args->scratch;
    if (has_few_rows(args->graph, args->op))
        multiply_few_rows(&x);
    else
        vp_cpu_gemm(args->pool, &product);
}

/* ---- B ------------------------------------------------------------------ */

static void dz_rows(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    struct linear x = linear_of(args);
    int64_t at = begin * x.N, n = (end - begin) * x.N;
    const void *z = vp_elem_of(x.simd, args->aux[0], at);

    x.simd->act_grad(vp_elem(x.simd, args->dz, at),
                     vp_elem_of(x.simd, args->dout, at), z, x.act, n);
    if (args->recomputed_out)
        x.simd->act(vp_elem(x.simd, args->recomputed_out, at), z, x.act, n);
}

/* BF16: rounds a finished tile to dx, or adds it. */
static void put_tile(void *ctx, int64_t row, int64_t rows, int64_t col,
                     int64_t cols, const float *tile, int64_t ld)
{
    const struct linear *x = ctx;

    for (int64_t i = 0; i < rows; i++)
        x->simd->put_floats(
            vp_elem(x->simd, x->args->din[0], (row + i) * x->K + col),
            tile + i * ld, 1.0f, x->args->din_add[0], cols);
}

void vp_cpu_linear_b(const struct vp_kargs *args)
{
    struct linear x = linear_of(args);
    struct vp_rows_call dz = { { dz_rows, NULL }, args };
    struct vp_gemm product = product_of(args->graph, args->op, VP_PHASE_B);

    product.a.data = x.dz;
    product.b.data = args->par[0];
    if (product.dtype == VP_DTYPE_F32) {
        product.c = args->din[0];
        product.beta = args->din_add[0] ? 1.0f : 0.0f;
    } else {
        product.finish = put_tile;
    }
    product.ctx = &x;
    product.scratch = args->scratch;
    if (args->dz)
        vp_cpu_rows_run(&dz, 1);
    if (args->din[0])
        vp_cpu_gemm(args->pool, &product);
}

/* ---- W ------------------------------------------------------------------ */

/* The bias gradient is the sum of dz over rows: a partial sum for each chunk of
 * rows goes to scratch [chunks, N]. */
static void bias_rows(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    struct linear x = linear_of(args);
    int64_t size = vp_chunks_sums(x.rows).size;
    float *sums = (float *)args->scratch + begin / size * x.N;

    x.simd->sum_rows(sums, vp_elem_of(x.simd, x.dz, begin * x.N), end - begin,
                     x.N, begin % size != 0, x.N);
}

static void bias_end(const struct vp_kargs *args)
{
    struct linear x = linear_of(args);

    vp_simd(VP_DTYPE_F32)
        ->sum_rows(args->dpar[1], args->scratch, vp_chunks_sums(x.rows).n, x.N,
                   args->mb->accumulate, x.N);
}

void vp_cpu_linear_w(const struct vp_kargs *args)
{
    struct linear x = linear_of(args);
    struct vp_rows_call bias = { { bias_rows, bias_end }, args };
    struct vp_gemm product = product_of(args->graph, args->op, VP_PHASE_W);

    product.a.data = x.dz;
    product.b.data = args->in[0];
    product.beta = args->mb->accumulate ? 1.0f : 0.0f;
    product.c = args->dpar[0];
    product.scratch = args->scratch;
    if (args->dpar[1])
        vp_cpu_rows_run(&bias, 1);
    if (args->dpar[0])
        vp_cpu_gemm(args->pool, &product);
}

/* The sums of the bias and the scratch of the product share memory: they are
 * not in use at the same time. */
size_t vp_cpu_linear_scratch(const struct vp_graph *graph,
                             const struct vp_op *op, enum vp_phase phase,
                             int n_threads)
{
    const struct vp_value *out = &graph->values[op->out];
    struct vp_gemm product = product_of(graph, op, phase);
    static float somewhere;
    size_t sums = 0, n_bytes;

    if (phase == VP_PHASE_W)
        product.c = &somewhere; /* only that it is not NULL matters */
    n_bytes = vp_cpu_gemm_scratch(&product, n_threads);
    if (phase == VP_PHASE_F && graph->dtype != VP_DTYPE_F32 &&
        has_few_rows(graph, op))
        sums = (size_t)(out->rows * out->cols) * sizeof(float);
    if (phase == VP_PHASE_W && op->par[1] != VP_NONE)
        sums = (size_t)vp_chunks_sums(out->rows).n * (size_t)out->cols *
               sizeof(float);
    return sums > n_bytes ? sums : n_bytes;
}
