/* cross_entropy: the mean over labelled rows of
 * (1-e) * -log p[label] + e * mean of -log p, p = softmax(logits).
 * logits: [n, V]; aux0: log-sum-exp (evaluation: the label's rank) and loss of
 * each row, [n, 2].
 *
 * In a tensor-parallel group each member has a slice of the columns, and the
 * logits are never gathered. For each row, members exchange the maximum, the
 * sum of exp relative to it, the sum of logits and the label's logit; in
 * evaluation also the number of ids that come before the label. Each member
 * then adds these in member order. */
#include "backend/cpu/cross_entropy.h"

#include "backend/cpu/chunk.h"
#include "backend/cpu/simd.h"

#include <math.h>
#include <string.h>

struct entropy {
    const struct vp_kargs *args;
    const struct vp_simd *simd;
    int64_t rows, V;
    int64_t n_ids;           /* columns of the whole logits */
    int64_t first_id, n_own; /* this member's slice of them */
    const void *logits;
    const int32_t *labels, *weights; /* [n]; weights may be NULL */
    float *aux;
    float smoothing;
    double total;                      /* sum of the rows' weights */
    struct row_part *mine, *all;       /* in a group: [n], [members, n] */
    int64_t *mine_before, *all_before; /* likewise, for the label's rank */
    struct vp_chunks chunks;
};

/* Statistics of one member's slice of a row of logits. */
struct row_part {
    double exps, sum; /* sum of exp(x - most), and sum of x */
    float most;       /* largest logit */
    float label;      /* the label's logit, 0 if another member has it */
};

/* Returns the weight of row i in the loss; 0 if it has no label. */
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
                         .n_ids = args->op->attr.n_ids,
                         .first_id = vp_arg_first_col(args, args->op->in[0]),
                         .n_own = vp_arg_n_ids(args),
                         .logits = args->in[0],
                         .labels = args->in[1],
                         .weights = args->in[2],
                         .aux = args->aux[0],
                         .smoothing = args->op->attr.smoothing,
                         .chunks = vp_chunks_rows(in->rows, in->cols) };

    for (int64_t i = 0; i < e.rows; i++) {
        VP_BUG_ON(e.labels[i] >= e.n_ids);
        e.total += row_weight(&e, i);
    }
    return e;
}

/* Returns the number of ids of this member's slice that come before the label,
 * whose logit is `own`: those with a larger logit, or an equal one and a
 * smaller id. */
static int64_t count_before(const struct entropy *e, const void *x,
                            int64_t label, float own)
{
    int64_t rank = 0, at = label - e->first_id;

    for (int64_t v = 0; v < e->n_own; v++) {
        float other = vp_elem_get(e->simd, x, v);

        rank += v < at ? !(other < own) : !(other <= own);
    }
    return rank;
}

static const void *row_of(const struct entropy *e, int64_t i)
{
    return vp_elem_of(e->simd, e->logits, i * e->V);
}

static struct row_part part_of(const struct entropy *e, int64_t i)
{
    int64_t at = e->labels[i] - e->first_id;
    struct row_part part = { 0.0, 0.0, -INFINITY, 0.0f };

    if (e->n_own > 0)
        part.most = e->simd->exp_sum(row_of(e, i), e->n_own, &part.exps,
                                     &part.sum);
    if (at >= 0 && at < e->n_own)
        part.label = vp_elem_get(e->simd, row_of(e, i), at);
    return part;
}

/* Writes log-sum-exp and loss of a row from the statistics of all its
 * columns. */
static void finish_row(const struct entropy *e, int64_t i,
                       const struct row_part *whole)
{
    float lse = whole->most + (float)log(whole->exps);
    float nll = lse - whole->label;
    float mean = lse - (float)(whole->sum / (double)e->n_ids);

    e->aux[2 * i] = lse;
    e->aux[2 * i + 1] = (1.0f - e->smoothing) * nll + e->smoothing * mean;
}

static void forward_row(const struct entropy *e, int64_t i)
{
    struct row_part whole;

    e->aux[2 * i] = e->aux[2 * i + 1] = 0.0f;
    if (row_weight(e, i) == 0)
        return;
    whole = part_of(e, i);
    finish_row(e, i, &whole);
    if (!e->args->mb->train)
        e->aux[2 * i] = (float)count_before(e, row_of(e, i), e->labels[i],
                                            whole.label);
}

static void forward_task(void *ctx, int task, int thread)
{
    const struct entropy *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++)
        forward_row(e, i);
}

/* ---- In a group --------------------------------------------------------- */

static void part_task(void *ctx, int task, int thread)
{
    const struct entropy *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++)
        e->mine[i] = row_weight(e, i) == 0 ? (struct row_part){ .most = 0.0f }
                                           : part_of(e, i);
}

/* Returns the statistics of all columns of row i; adds in member order. */
static struct row_part join_parts(const struct entropy *e, int64_t i)
{
    struct row_part whole = e->all[i];
    int n = e->args->members->n;

    for (int k = 1; k < n; k++)
        if (!(e->all[k * e->rows + i].most <= whole.most))
            whole.most = e->all[k * e->rows + i].most;
    whole.exps = whole.sum = 0.0;
    whole.label = 0.0f;
    for (int k = 0; k < n; k++) {
        const struct row_part *part = &e->all[k * e->rows + i];

        if (part->exps != 0.0)
            whole.exps += part->exps * exp((double)(part->most - whole.most));
        whole.sum += part->sum;
        whole.label += part->label;
    }
    return whole;
}

static void join_task(void *ctx, int task, int thread)
{
    const struct entropy *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);

    (void)thread;
    for (int64_t i = r.begin; i < r.end; i++) {
        struct row_part whole;

        e->aux[2 * i] = e->aux[2 * i + 1] = 0.0f;
        e->mine_before[i] = 0;
        if (row_weight(e, i) == 0)
            continue;
        whole = join_parts(e, i);
        finish_row(e, i, &whole);
        if (!e->args->mb->train)
            e->mine_before[i] = count_before(e, row_of(e, i), e->labels[i],
                                             whole.label);
    }
}

/* Scratch: mine, all, mine_before, all_before. */
static void forward_in_group(struct entropy *e)
{
    const struct vp_members *members = e->args->members;
    const struct vp_op *op = e->args->op;
    int64_t n = members->n;

    e->mine = e->args->scratch;
    e->all = e->mine + e->rows;
    e->mine_before = (int64_t *)(e->all + n * e->rows);
    e->all_before = e->mine_before + e->rows;
    vp_pool_run(e->args->pool, e->chunks.n, part_task, e);
    members->exchange(members->ctx, op, e->mine,
                      (size_t)e->rows * sizeof(*e->mine), e->all);
    if (members->status(members->ctx) != VP_OK)
        return;
    vp_pool_run(e->args->pool, e->chunks.n, join_task, e);
    if (e->args->mb->train)
        return;
    members->exchange(members->ctx, op, e->mine_before,
                      (size_t)e->rows * sizeof(*e->mine_before), e->all_before);
    for (int64_t i = 0; i < e->rows; i++) {
        int64_t rank = 0;

        for (int64_t k = 0; k < n; k++)
            rank += e->all_before[k * e->rows + i];
        if (row_weight(e, i) != 0)
            e->aux[2 * i] = (float)rank;
    }
}

size_t vp_cpu_cross_entropy_scratch(const struct vp_graph *graph,
                                    const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_value *logits = &graph->values[op->in[0]];

    if (phase != VP_PHASE_F || logits->spread != VP_SPREAD_COLS)
        return 0;
    return (size_t)logits->rows * ((size_t)graph->n_members + 1) *
           (sizeof(struct row_part) + sizeof(int64_t));
}

void vp_cpu_cross_entropy_f(const struct vp_kargs *args)
{
    struct entropy e = entropy_of(args);
    bool ranked = !args->mb->train;
    float *loss = args->out;
    double sum = 0, top1 = 0, top5 = 0;

    if (args->members &&
        vp_arg_value(args, args->op->in[0])->spread == VP_SPREAD_COLS)
        forward_in_group(&e);
    else
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
    const void *x = row_of(e, i);
    void *dx = vp_elem(e->simd, e->args->din[0], i * e->V);
    bool add = e->args->din_add[0];
    int32_t w = row_weight(e, i);
    int64_t at = e->labels[i] - e->first_id, n = e->n_own;
    float shift = e->smoothing / (float)e->n_ids, lse = e->aux[2 * i];
    float g, d = 0.0f, old = 0.0f;

    if (w == 0)
        n = 0;
    if (!add) /* rows that do not count, columns after the last id */
        memset(vp_elem(e->simd, dx, n), 0,
               (size_t)((e->V - n) * vp_dtype_bytes(e->simd->dtype)));
    if (n == 0)
        return;
    g = (float)((double)e->args->mb->loss_grad * w / e->total);
    if (at >= 0 && at < n) {
        old = add ? vp_elem_get(e->simd, dx, at) : 0.0f;
        d = expf(vp_elem_get(e->simd, x, at) - lse) - shift -
            (1.0f - e->smoothing);
    }
    e->simd->exp_minus(dx, x, lse, shift, g, add, n);
    if (at >= 0 && at < n)
        vp_elem_put(e->simd, dx, at, old + g * d);
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
