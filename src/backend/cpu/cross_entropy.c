/* cross_entropy: the mean over labelled rows of
 * (1-e) * -log p[label] + e * mean of -log p, p = softmax(logits).
 * logits: [n, V]; aux0: log-sum-exp (evaluation: the label's rank) and loss of
 * each row, [n, 2]. */
#include "backend/cpu/chunk.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/simd.h"

#include <math.h>
#include <string.h>

struct entropy {
    const struct vp_kargs *args;
    const struct vp_simd *simd;
    int64_t rows, V;
    const void *logits;
    const int32_t *labels, *weights; /* [n]; weights may be NULL */
    float *aux;
    float smoothing;
    double total; /* sum of the rows' weights */
    struct vp_chunks chunks;
};

/* 0 for a row without a label. */
static int32_t row_weight(const struct entropy *e, int64_t i)
{
    if (e->labels[i] < 0)
        return 0;
    return e->weights ? e->weights[i] : 1;
}

static struct entropy entropy_of(const struct vp_kargs *args)
{
    const struct vp_value *in = vp_arg_value(args, args->op->in[0]);
    struct entropy e = { .args = args,
                         .simd = vp_simd(args->graph->dtype),
                         .rows = in->rows,
                         .V = in->cols,
                         .logits = args->in[0],
                         .labels = args->in[1],
                         .weights = args->in[2],
                         .aux = args->aux[0],
                         .smoothing = args->op->attr.smoothing,
                         .chunks = vp_chunks_rows(in->rows, in->cols) };

    for (int64_t i = 0; i < e.rows; i++) {
        VP_BUG_ON(e.labels[i] >= e.V);
        e.total += row_weight(&e, i);
    }
    return e;
}

/* Ids that come before the label in the order of logits. */
static int64_t label_rank(const struct vp_simd *simd, const void *x, int64_t V,
                          int32_t label)
{
    float own = vp_elem_get(simd, x, label);
    int64_t rank = 0;

    for (int64_t v = 0; v < label; v++)
        rank += !(vp_elem_get(simd, x, v) < own);
    for (int64_t v = label; v < V; v++)
        rank += !(vp_elem_get(simd, x, v) <= own);
    return rank;
}

static void forward_row(const struct entropy *e, int64_t i)
{
    const void *x = vp_elem_of(e->simd, e->logits, i * e->V);
    float most, lse, nll, mean;
    double exps, sum;

    e->aux[2 * i] = e->aux[2 * i + 1] = 0.0f;
    if (row_weight(e, i) == 0)
        return;
    most = e->simd->exp_sum(x, e->V, &exps, &sum);
    lse = most + (float)log(exps);
    nll = lse - vp_elem_get(e->simd, x, e->labels[i]);
    mean = lse - (float)(sum / (double)e->V);
    e->aux[2 * i] = lse;
    e->aux[2 * i + 1] = (1.0f - e->smoothing) * nll + e->smoothing * mean;
    if (!e->args->mb->train)
        e->aux[2 * i] = (float)label_rank(e->simd, x, e->V, e->labels[i]);
}

static void forward_task(void *ctx, int task, int thread)
{
    const struct entropy *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++)
        forward_row(e, i);
}

void vp_cpu_cross_entropy_f(const struct vp_kargs *args)
{
    struct entropy e = entropy_of(args);
    bool ranked = !args->mb->train;
    float *loss = args->out;
    double sum = 0, top1 = 0, top5 = 0;

    vp_pool_run(args->pool, e.chunks.n, forward_task, &e);
    for (int64_t i = 0; i < e.rows; i++) {
        double w = row_weight(&e, i);

        sum += w * (double)e.aux[2 * i + 1];
        top1 += ranked && e.aux[2 * i] < 1.0f ? w : 0.0;
        top5 += ranked && e.aux[2 * i] < 5.0f ? w : 0.0;
    }
    loss[VP_LOSS_MEAN] = e.total > 0 ? (float)(sum / e.total) : 0.0f;
    loss[VP_LOSS_WEIGHT] = (float)e.total;
    loss[VP_LOSS_TOP1] = (float)top1;
    loss[VP_LOSS_TOP5] = (float)top5;
}

/* dlogits = dloss * w / sum of w * (p - (1-e) * [v is the label] - e / V).
 * dlogits may be the memory of logits. */
static void backward_row(const struct entropy *e, int64_t i)
{
    const void *x = vp_elem_of(e->simd, e->logits, i * e->V);
    void *dx = vp_elem(e->simd, e->args->din[0], i * e->V);
    bool add = e->args->din_add[0];
    int32_t w = row_weight(e, i), label = e->labels[i];
    float shift = e->smoothing / (float)e->V, lse = e->aux[2 * i], g, d, old;

    if (w == 0) {
        if (!add)
            memset(dx, 0, (size_t)(e->V * vp_dtype_bytes(e->simd->dtype)));
        return;
    }
    g = (float)((double)e->args->mb->loss_grad * w / e->total);
    old = add ? vp_elem_get(e->simd, dx, label) : 0.0f;
    d = expf(vp_elem_get(e->simd, x, label) - lse) - shift -
        (1.0f - e->smoothing);
    e->simd->exp_minus(dx, x, lse, shift, g, add, e->V);
    vp_elem_put(e->simd, dx, label, old + g * d);
}

static void backward_task(void *ctx, int task, int thread)
{
    const struct entropy *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++)
        backward_row(e, i);
}

void vp_cpu_cross_entropy_b(const struct vp_kargs *args)
{
    struct entropy e = entropy_of(args);

    if (args->din[0])
        vp_pool_run(args->pool, e.chunks.n, backward_task, &e);
}
