/* add, scale, copy and dropout: element by element, so inputs and outputs may
 * be the same memory. */
#include "backend/cpu/chunk.h"
#include "backend/cpu/dropout.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/simd.h"

#include <string.h>

/* dst (+)= f(x, y) */
struct elements {
    const struct vp_simd *simd;
    struct vp_chunks chunks;
    float *dst;
    const float *x, *y;
    float scale;
    bool add;
};

static struct vp_chunks chunks_of(const struct vp_kargs *args, vp_val value)
{
    const struct vp_value *v = vp_arg_value(args, value);

    return vp_chunks_elements(v->rows * v->cols);
}

static void add_task(void *ctx, int task, int thread)
{
    const struct elements *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);

    (void)thread;
    e->simd->add(e->dst + r.begin, e->x + r.begin, e->y + r.begin,
                 r.end - r.begin);
}

void vp_cpu_add_f(const struct vp_kargs *args)
{
    struct elements e = { .simd = vp_simd(),
                          .dst = args->out,
                          .x = args->in[0],
                          .y = args->in[1],
                          .chunks = chunks_of(args, args->op->out) };

    vp_pool_run(args->pool, e.chunks.n, add_task, &e);
}

static void scale_task(void *ctx, int task, int thread)
{
    const struct elements *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);

    (void)thread;
    e->simd->scale(e->dst + r.begin, e->x + r.begin, e->scale, e->add,
                   r.end - r.begin);
}

void vp_cpu_scale_f(const struct vp_kargs *args)
{
    struct elements e = { .simd = vp_simd(),
                          .dst = args->out,
                          .x = args->in[0],
                          .scale = args->op->attr.scale,
                          .chunks = chunks_of(args, args->op->out) };

    vp_pool_run(args->pool, e.chunks.n, scale_task, &e);
}

void vp_cpu_scale_b(const struct vp_kargs *args)
{
    struct elements e = { .simd = vp_simd(),
                          .dst = args->din[0],
                          .x = args->dout,
                          .scale = args->op->attr.scale,
                          .add = args->din_add[0],
                          .chunks = chunks_of(args, args->op->out) };

    if (e.dst)
        vp_pool_run(args->pool, e.chunks.n, scale_task, &e);
}

/* Floats and int32 are both four bytes: values of either type are copied. */
static void copy_task(void *ctx, int task, int thread)
{
    const struct elements *e = ctx;
    struct vp_range r = vp_chunk(&e->chunks, task);

    (void)thread;
    memcpy(e->dst + r.begin, e->x + r.begin,
           (size_t)(r.end - r.begin) * sizeof(float));
}

void vp_cpu_copy_f(const struct vp_kargs *args)
{
    struct elements e = { .dst = args->out,
                          .x = args->in[0],
                          .chunks = chunks_of(args, args->op->in[0]) };

    vp_pool_run(args->pool, e.chunks.n, copy_task, &e);
}

void vp_cpu_copy_b(const struct vp_kargs *args)
{
    struct elements e = { .simd = vp_simd(),
                          .dst = args->din[0],
                          .x = args->din[0],
                          .y = args->dout,
                          .chunks = chunks_of(args, args->op->in[0]) };

    if (!e.dst)
        return;
    if (!args->din_add[0])
        e.x = args->dout;
    vp_pool_run(args->pool, e.chunks.n, args->din_add[0] ? add_task : copy_task,
                &e);
}

/* ---- Dropout ------------------------------------------------------------ */

enum { KEEP_WORDS = 256 }; /* 4096 columns at a time */

struct rows {
    const struct vp_kargs *args;
    const struct vp_simd *simd;
    struct vp_chunks chunks;
    struct vp_dropout dropout;
    int64_t cols;
    float *dst;
    const float *x;
    bool add;
};

static void drop_row(const struct rows *d, int64_t row)
{
    int64_t q_len = d->args->op->attr.q_len, step = 16 * KEEP_WORDS;
    uint64_t sample = d->dropout.first_sample + (uint64_t)(row / q_len);
    vp_bits16 keep[KEEP_WORDS];

    for (int64_t col = 0; col < d->cols; col += step) {
        int64_t n = d->cols - col < step ? d->cols - col : step;
        int64_t at = row * d->cols + col;

        d->simd->keep_row(keep, &d->dropout, sample, (uint32_t)(row % q_len),
                          (uint32_t)(col / 16), (n + 15) / 16);
        d->simd->drop(d->dst + at, d->x + at, keep, d->dropout.scale, d->add,
                      n);
    }
}

static void drop_task(void *ctx, int task, int thread)
{
    const struct rows *d = ctx;
    struct vp_range r = vp_chunk(&d->chunks, task);

    (void)thread;
    for (int64_t row = r.begin; row < r.end; row++)
        drop_row(d, row);
}

/* dst (+)= dropped x; forward and backward alike. */
static void drop(const struct vp_kargs *args, float *dst, bool add,
                 const float *x)
{
    const struct vp_value *in = vp_arg_value(args, args->op->in[0]);
    struct rows d = { .args = args,
                      .simd = vp_simd(),
                      .cols = in->cols,
                      .chunks = vp_chunks_rows(in->rows, in->cols),
                      .dst = dst,
                      .x = x,
                      .add = add };
    struct elements same = { .simd = d.simd,
                             .dst = dst,
                             .x = x,
                             .scale = 1.0f,
                             .add = add,
                             .chunks = chunks_of(args, args->op->in[0]) };

    if (vp_dropout_init(args, &d.dropout))
        vp_pool_run(args->pool, d.chunks.n, drop_task, &d);
    else
        vp_pool_run(args->pool, same.chunks.n, scale_task, &same);
}

void vp_cpu_dropout_f(const struct vp_kargs *args)
{
    drop(args, args->out, false, args->in[0]);
}

void vp_cpu_dropout_b(const struct vp_kargs *args)
{
    if (args->din[0])
        drop(args, args->din[0], args->din_add[0], args->dout);
}
