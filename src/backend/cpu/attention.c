/* attention: softmax(scale q k^T, masked) with dropout, times v.
 *
 * A head of one sample is computed in tiles of query rows whose scores [rows,
 * Sk] fit the cache of one core. Forward keeps the log-sum-exp of each query;
 * backward computes the scores again:
 *   p  = exp(scale q k^T - lse),  m = dropout mask times its scale
 *   dv = (m p)^T dout,  ds = p (m (dout v^T) - dout . out)
 *   dq = scale ds k,  dk = scale ds^T q
 * One thread sums dk and dv of a head tile by tile. With BF16, scores and all
 * sums are floats. Probabilities and ds are rounded for the products and
 * overwrite the scores; results are rounded once. */
#include "backend/cpu/dropout.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/simd.h"

#include <math.h>

enum {
    TILE_BYTES = 256 * 1024, /* scores of a tile: two fit a level-2 cache */
    CAUSAL_ROWS = 64,        /* with fewer rows, tiles skip more masked keys */
};

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Scratch of one thread; sizes follow from the operator alone. */
struct layout {
    int64_t ld;   /* row stride of a score tile: keys rounded up to 32 */
    int64_t tile; /* query rows, a multiple of 16 */
    size_t dscores, factor, keep, allow; /* byte offsets; scores are at 0 */
    size_t sums, product; /* BF16: of float results, of scratch of products */
    size_t n_bytes;
};

static int64_t tile_rows(const struct vp_attr *attr, int64_t ld)
{
    int64_t rows = TILE_BYTES / (int64_t)sizeof(float) / ld / 16 * 16;

    if (attr->causal) {
        int64_t most = round_up(attr->q_len / 4, 16);

        most = most > CAUSAL_ROWS ? most : CAUSAL_ROWS;
        rows = rows < most ? rows : most;
    }
    rows = rows < round_up(attr->q_len, 16) ? rows : round_up(attr->q_len, 16);
    return rows > 16 ? rows : 16;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* BF16: adds areas for float sums (out or dq of a tile; in backward also dk and
 * dv of a head) and for scratch of products. */
static void add_sums(struct layout *l, const struct vp_attr *attr,
                     enum vp_phase phase, int64_t dim)
{
    int64_t n = attr->k_len, rows = l->tile + (phase == VP_PHASE_B ? 2 * n : 0);
    enum vp_dtype bf16 = VP_DTYPE_BF16;
    size_t product = larger(vp_cpu_gemm_here_scratch(bf16, l->tile, n, dim),
                            vp_cpu_gemm_here_scratch(bf16, l->tile, dim, n));

    if (phase == VP_PHASE_B)
        product = larger(product,
                         vp_cpu_gemm_here_scratch(bf16, n, dim, l->tile));
    l->sums = l->n_bytes;
    l->product = l->sums + (size_t)(rows * dim) * sizeof(float);
    l->product = vp_align_up(l->product, VP_TENSOR_ALIGN);
    l->n_bytes = vp_align_up(l->product + product, VP_TENSOR_ALIGN);
}

static struct layout layout_of(const struct vp_graph *graph,
                               const struct vp_op *op, enum vp_phase phase)
{
    struct layout l = { .ld = round_up(op->attr.k_len, 32) };
    size_t scores;

    l.tile = tile_rows(&op->attr, l.ld);
    scores = (size_t)(l.tile * l.ld) * sizeof(float);
    l.dscores = scores;
    l.factor = phase == VP_PHASE_B ? 2 * scores : scores;
    l.keep = l.factor + (size_t)l.tile * sizeof(float);
    l.allow = l.keep + (size_t)(l.tile * l.ld / 16) * sizeof(vp_bits16);
    l.n_bytes = l.allow + (size_t)(l.ld / 16) * sizeof(vp_bits16);
    l.n_bytes = vp_align_up(l.n_bytes, VP_TENSOR_ALIGN);
    if (graph->dtype == VP_DTYPE_BF16)
        add_sums(&l, &op->attr, phase,
                 graph->values[op->out].cols / op->attr.heads);
    return l;
}

size_t vp_cpu_attention_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase)
{
    return layout_of(graph, op, phase).n_bytes;
}

/* A kernel call. Rows of the queries are ld_q elements apart, rows of keys and
 * values ld_kv, rows of out and dout ld_out. */
struct attention {
    const struct vp_kargs *args;
    const struct vp_attr *attr;
    const struct vp_simd *simd;
    struct layout layout;
    struct vp_dropout dropout;
    bool drops;
    bool floats;       /* F32: products write the results themselves */
    float score_scale; /* factor for the softmax; with F32 products apply it */
    int64_t dim, n_tiles;
    int64_t ld_q, ld_kv, ld_out;
    int kv;        /* the input with keys and values: 0 or 1 */
    int64_t k_col; /* column of the first key in that input */
};

static struct attention attention_of(const struct vp_kargs *args,
                                     enum vp_phase phase)
{
    const struct vp_op *op = args->op;
    struct attention x = { .args = args,
                           .attr = &op->attr,
                           .simd = vp_simd(args->graph->dtype) };

    x.floats = args->graph->dtype == VP_DTYPE_F32;
    x.score_scale = x.floats ? 1.0f : op->attr.scale;
    x.layout = layout_of(args->graph, op, phase);
    x.drops = vp_dropout_init(args, &x.dropout);
    x.ld_out = vp_arg_value(args, op->out)->cols;
    x.dim = x.ld_out / op->attr.heads;
    x.n_tiles = (op->attr.q_len + x.layout.tile - 1) / x.layout.tile;
    x.kv = op->in[1] != VP_NONE ? 1 : 0;
    x.ld_q = vp_arg_value(args, op->in[0])->cols;
    x.ld_kv = vp_arg_value(args, op->in[x.kv])->cols;
    x.k_col = x.kv ? 0 : x.ld_out;
    return x;
}

/* Query rows [row, row + rows) of one head of one sample, with the thread's
 * scratch. */
struct tile {
    int64_t sample;
    int head;
    int64_t row, rows;
    int64_t n_keys;          /* keys [0, n_keys) take part */
    int64_t q, k, v, out;    /* offsets in the tensors, in elements */
    float *scores, *dscores; /* [rows, ld]; dscores in backward only */
    float *factor;           /* [rows]: turns exponentials into probabilities */
    float *sums, *dk, *dv;   /* BF16: [rows, dim]; backward: [keys, dim] */
    void *product;           /* BF16: scratch of products */
    vp_bits16 *keep;         /* dropout mask [rows, ld / 16], or NULL */
    vp_bits16 *allow;        /* key mask as bits, [ld / 16] */
};

static struct tile tile_of(const struct attention *x, int64_t head_of_batch,
                           int thread)
{
    const struct layout *l = &x->layout;
    char *scratch = (char *)x->args->scratch + (size_t)thread * l->n_bytes;
    struct tile t = { .sample = head_of_batch / x->attr->heads,
                      .head = (int)(head_of_batch % x->attr->heads) };

    t.k = t.sample * x->attr->k_len * x->ld_kv + x->k_col + t.head * x->dim;
    t.v = t.k + x->ld_out;
    t.scores = (float *)scratch;
    t.dscores = (float *)(scratch + l->dscores);
    t.factor = (float *)(scratch + l->factor);
    t.sums = (float *)(scratch + l->sums);
    t.dk = t.sums + l->tile * x->dim;
    t.dv = t.dk + x->attr->k_len * x->dim;
    t.product = scratch + l->product;
    t.keep = x->drops ? (vp_bits16 *)(scratch + l->keep) : NULL;
    t.allow = (vp_bits16 *)(scratch + l->allow);
    return t;
}

/* Sets a bit for each key that is not padding; bits after the last key are
 * 0. */
static void set_allow(const struct attention *x, const struct tile *t)
{
    const int32_t *mask = x->args->in[2];
    int64_t n = x->attr->k_len;

    if (mask)
        mask += t->sample * n;
    for (int64_t i = 0; i < x->layout.ld; i += 16) {
        unsigned bits = 0;

        for (int64_t k = i; k < i + 16 && k < n; k++)
            bits |= (unsigned)(!mask || mask[k] != 0) << (k - i);
        t->allow[i / 16] = (vp_bits16)bits;
    }
}

/* Moves the tile to the query rows from `row` on and generates its dropout
 * mask. Leaves out keys that a causal mask hides from all of its rows. */
static void set_rows(const struct attention *x, struct tile *t, int64_t row)
{
    const struct vp_attr *attr = x->attr;
    int64_t left = attr->q_len - row;

    t->row = row;
    t->rows = left < x->layout.tile ? left : x->layout.tile;
    t->n_keys = attr->causal ? row + t->rows : attr->k_len;
    t->q = (t->sample * attr->q_len + row) * x->ld_q + t->head * x->dim;
    t->out = (t->sample * attr->q_len + row) * x->ld_out + t->head * x->dim;
    if (!t->keep)
        return;
    for (int64_t i = 0; i < t->rows; i += 16)
        x->simd->keep_tile(t->keep + i * x->layout.ld / 16, x->layout.ld / 16,
                           &x->dropout,
                           x->dropout.first_sample + (uint64_t)t->sample,
                           vp_arg_first_head(x->args) + t->head,
                           (uint32_t)((row + i) / 16), (t->n_keys + 31) / 32);
}

/* Returns the number of keys that row i of the tile may attend to, before the
 * key mask. */
static int64_t row_keys(const struct attention *x, const struct tile *t,
                        int64_t i)
{
    return x->attr->causal ? t->row + i + 1 : t->n_keys;
}

static const vp_bits16 *row_keep(const struct attention *x,
                                 const struct tile *t, int64_t i)
{
    return t->keep ? t->keep + i * x->layout.ld / 16 : NULL;
}

/* Returns the address of the log-sum-exp of row i of the tile; aux0: [B*Sq,
 * heads]. */
static float *row_lse(const struct attention *x, const struct tile *t,
                      int64_t i)
{
    int64_t row = t->sample * x->attr->q_len + t->row + i;

    return (float *)x->args->aux[0] + row * x->attr->heads + t->head;
}

/* The next functions return matrices of the tile in the call's tensors: queries
 * and dout [rows, dim], keys and values [n_keys, dim]. */
static struct vp_factor factor_of(const struct attention *x, const void *tensor,
                                  int64_t at, int64_t ld)
{
    return (struct vp_factor){ vp_elem_of(x->simd, tensor, at), ld, false };
}

static struct vp_factor queries(const struct attention *x, const struct tile *t)
{
    return factor_of(x, x->args->in[0], t->q, x->ld_q);
}

static struct vp_factor douts(const struct attention *x, const struct tile *t)
{
    return factor_of(x, x->args->dout, t->out, x->ld_out);
}

static struct vp_factor keys(const struct attention *x, const struct tile *t)
{
    return factor_of(x, x->args->in[x->kv], t->k, x->ld_kv);
}

static struct vp_factor values(const struct attention *x, const struct tile *t)
{
    return factor_of(x, x->args->in[x->kv], t->v, x->ld_kv);
}

/* Returns a score tile as a matrix of elements, which softmax() wrote at the
 * start of each row of floats. */
static struct vp_factor weights(const struct attention *x, const float *scores,
                                bool transposed)
{
    int64_t per_float = (int64_t)sizeof(float) / vp_dtype_bytes(x->simd->dtype);

    return (struct vp_factor){ scores, x->layout.ld * per_float, transposed };
}

/* c [rows, n_keys] = alpha * rows keys^T; c is a score tile. BF16: without
 * alpha, which the softmax applies. */
static void by_keys(const struct attention *x, const struct tile *t, float *c,
                    float alpha, struct vp_factor rows, struct vp_factor keys)
{
    struct vp_gemm product = {
        .dtype = x->simd->dtype,
        .m = t->rows,
        .n = t->n_keys,
        .k = x->dim,
        .a = rows,
        .b = { keys.data, keys.ld, true },
        .alpha = x->floats ? alpha : 1.0f,
        .c = c,
        .ldc = x->layout.ld,
        .scratch = t->product,
    };

    vp_cpu_gemm_here(&product);
}

/* c [rows, dim] = alpha * tile keys + beta * c, from a score tile. BF16: c has
 * BF16 elements, and the product goes to t->sums first. */
static void from_keys(const struct attention *x, const struct tile *t,
                      const float *scores, float alpha, struct vp_factor keys,
                      float beta, void *c, int64_t ldc)
{
    struct vp_gemm product = {
        .dtype = x->simd->dtype,
        .m = t->rows,
        .n = x->dim,
        .k = t->n_keys,
        .a = weights(x, scores, false),
        .b = keys,
        .alpha = x->floats ? alpha : 1.0f,
        .beta = x->floats ? beta : 0.0f,
        .c = x->floats ? c : t->sums,
        .ldc = x->floats ? ldc : x->dim,
        .scratch = t->product,
    };

    vp_cpu_gemm_here(&product);
    for (int64_t i = 0; !x->floats && i < t->rows; i++)
        x->simd->put_floats(vp_elem(x->simd, c, i * ldc), t->sums + i * x->dim,
                            alpha, beta != 0.0f, x->dim);
}

/* c [n_keys, dim] = alpha * tile^T rows + beta * c, from a score tile. BF16:
 * without alpha, which put_keys() applies. */
static void to_keys(const struct attention *x, const struct tile *t,
                    const float *scores, float alpha, struct vp_factor rows,
                    float beta, float *c, int64_t ldc)
{
    struct vp_gemm product = {
        .dtype = x->simd->dtype,
        .m = t->n_keys,
        .n = x->dim,
        .k = t->rows,
        .a = weights(x, scores, true),
        .b = rows,
        .alpha = x->floats ? alpha : 1.0f,
        .beta = beta,
        .c = c,
        .ldc = ldc,
        .scratch = t->product,
    };

    vp_cpu_gemm_here(&product);
}

/* ---- F ------------------------------------------------------------------ */

/* scores = exp(score - the row's largest) where kept, else 0. factor[i] times
 * these are the probabilities of row i. */
static void forward_softmax(const struct attention *x, const struct tile *t)
{
    float scale = t->keep ? x->dropout.scale : 1.0f, sum, most;

    for (int64_t i = 0; i < t->rows; i++) {
        most = x->simd->softmax(t->scores + i * x->layout.ld, x->score_scale,
                                t->allow, row_keep(x, t, i), row_keys(x, t, i),
                                t->n_keys, &sum);
        *row_lse(x, t, i) = sum == 0.0f ? 0.0f : most + logf(sum);
        t->factor[i] = sum == 0.0f ? 0.0f : scale / sum;
    }
}

static void forward_task(void *ctx, int task, int thread)
{
    const struct attention *x = ctx;
    struct tile t = tile_of(x, task / x->n_tiles, thread);
    struct vp_gemm product;
    void *out;

    set_allow(x, &t);
    set_rows(x, &t, task % x->n_tiles * x->layout.tile);
    by_keys(x, &t, t.scores, x->attr->scale, queries(x, &t), keys(x, &t));
    forward_softmax(x, &t);
    out = vp_elem(x->simd, x->args->out, t.out);
    product = (struct vp_gemm){
        .dtype = x->simd->dtype,
        .m = t.rows,
        .n = x->dim,
        .k = t.n_keys,
        .a = weights(x, t.scores, false),
        .b = values(x, &t),
        .alpha = 1.0f,
        .c = x->floats ? out : t.sums,
        .ldc = x->floats ? x->ld_out : x->dim,
        .scratch = t.product,
    };
    vp_cpu_gemm_here(&product);
    for (int64_t i = 0; i < t.rows; i++)
        x->simd->put_floats(vp_elem(x->simd, out, i * x->ld_out),
                            product.c + i * product.ldc, t.factor[i], false,
                            x->dim);
}

void vp_cpu_attention_f(const struct vp_kargs *args)
{
    struct attention x = attention_of(args, VP_PHASE_F);
    int64_t n_tasks = x.attr->batch * x.attr->heads * x.n_tiles;

    vp_pool_run(args->pool, (int)n_tasks, forward_task, &x);
}

/* ---- B ------------------------------------------------------------------ */

/* Replaces the scores by m p, and dscores, which are dout v^T, by ds. */
static void backward_softmax(const struct attention *x, const struct tile *t)
{
    float kept = t->keep ? x->dropout.scale : 1.0f;

    for (int64_t i = 0; i < t->rows; i++) {
        int64_t at = t->out + i * x->ld_out;
        float delta = x->simd->dot(vp_elem_of(x->simd, x->args->dout, at),
                                   vp_elem_of(x->simd, x->args->out, at),
                                   x->dim);

        x->simd->softmax_grad(
            t->scores + i * x->layout.ld, t->dscores + i * x->layout.ld,
            x->score_scale, t->allow, row_keep(x, t, i), kept,
            *row_lse(x, t, i), delta, row_keys(x, t, i), t->n_keys);
    }
}

/* Computes dq of the tile's rows and their terms of dk and dv; `first`: these
 * sums over tiles begin here. */
static void backward_products(const struct attention *x, const struct tile *t,
                              bool first)
{
    const struct vp_kargs *args = x->args;
    void *dq = args->din[0], *dkv = args->din[x->kv];
    float beta_q = args->din_add[0] ? 1.0f : 0.0f;
    float beta_kv = !first || (x->floats && args->din_add[x->kv]) ? 1.0f : 0.0f;
    float scale = x->attr->scale;
    float *dk = x->floats && dkv ? (float *)dkv + t->k : t->dk;
    float *dv = x->floats && dkv ? (float *)dkv + t->v : t->dv;
    int64_t ld = x->floats ? x->ld_kv : x->dim;

    if (dq)
        from_keys(x, t, t->dscores, scale, keys(x, t), beta_q,
                  vp_elem(x->simd, dq, t->q), x->ld_q);
    if (!dkv)
        return;
    to_keys(x, t, t->dscores, scale, queries(x, t), beta_kv, dk, ld);
    to_keys(x, t, t->scores, 1.0f, douts(x, t), beta_kv, dv, ld);
}

/* BF16: rounds dk and dv from their float sums over all tiles. */
static void put_keys(const struct attention *x, const struct tile *t)
{
    void *dkv = x->args->din[x->kv];
    bool add = x->args->din_add[x->kv];

    for (int64_t i = 0; dkv && i < x->attr->k_len; i++) {
        x->simd->put_floats(vp_elem(x->simd, dkv, t->k + i * x->ld_kv),
                            t->dk + i * x->dim, x->attr->scale, add, x->dim);
        x->simd->put_floats(vp_elem(x->simd, dkv, t->v + i * x->ld_kv),
                            t->dv + i * x->dim, 1.0f, add, x->dim);
    }
}

static void backward_task(void *ctx, int task, int thread)
{
    const struct attention *x = ctx;
    struct tile t = tile_of(x, task, thread);

    set_allow(x, &t);
    /* The last rows come first: even under a causal mask they attend to every
     * key, so the first product writes all of dk and dv. */
    for (int64_t i = x->n_tiles - 1; i >= 0; i--) {
        set_rows(x, &t, i * x->layout.tile);
        by_keys(x, &t, t.scores, x->attr->scale, queries(x, &t), keys(x, &t));
        by_keys(x, &t, t.dscores, 1.0f, douts(x, &t), values(x, &t));
        backward_softmax(x, &t);
        backward_products(x, &t, i == x->n_tiles - 1);
    }
    if (!x->floats)
        put_keys(x, &t);
}

void vp_cpu_attention_b(const struct vp_kargs *args)
{
    struct attention x = attention_of(args, VP_PHASE_B);

    if (args->din[0] || args->din[x.kv])
        vp_pool_run(args->pool, (int)(x.attr->batch * x.attr->heads),
                    backward_task, &x);
}
