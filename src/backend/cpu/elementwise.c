/* add, scale, copy and dropout: element by element, so inputs and outputs may
 * be the same memory. */
#include "backend/cpu/dropout.h"
#include "backend/cpu/fast.h"
#include "backend/cpu/simd.h"

#include <string.h>

static int64_t cols_of(const struct vp_kargs *args)
{
    return vp_arg_value(args, args->op->out)->cols;
}

static void add(const struct vp_kargs *args, float *dst, const float *a,
                const float *b, int64_t begin, int64_t end)
{
    int64_t cols = cols_of(args), at = begin * cols;

    vp_simd()->add(dst + at, a + at, b + at, (end - begin) * cols);
}

void vp_cpu_add_f(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    add(args, args->out, args->in[0], args->in[1], begin, end);
}

/* dst (+)= s * x */
static void scale(const struct vp_kargs *args, float *dst, bool add,
                  const float *x, float s, int64_t begin, int64_t end)
{
    int64_t cols = cols_of(args), at = begin * cols;

    vp_simd()->scale(dst + at, x + at, s, add, (end - begin) * cols);
}

void vp_cpu_scale_f(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    scale(args, args->out, false, args->in[0], args->op->attr.scale, begin,
          end);
}

void vp_cpu_scale_b(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    if (args->din[0])
        scale(args, args->din[0], args->din_add[0], args->dout,
              args->op->attr.scale, begin, end);
}

/* Floats and int32 are both four bytes: values of either type are copied. */
static void copy(const struct vp_kargs *args, float *dst, const float *x,
                 int64_t begin, int64_t end)
{
    int64_t cols = cols_of(args), at = begin * cols;

    memcpy(dst + at, x + at, (size_t)((end - begin) * cols) * sizeof(*dst));
}

void vp_cpu_copy_f(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    copy(args, args->out, args->in[0], begin, end);
}

void vp_cpu_copy_b(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    if (args->din[0] && args->din_add[0])
        add(args, args->din[0], args->din[0], args->dout, begin, end);
    else if (args->din[0])
        copy(args, args->din[0], args->dout, begin, end);
}

/* ---- Dropout ------------------------------------------------------------ */

enum { KEEP_WORDS = 256 }; /* 4096 columns at a time */

struct drop {
    const struct vp_simd *simd;
    struct vp_dropout dropout;
    int64_t q_len, cols;
    float *dst;
    const float *x;
    bool add;
};

static void drop_row(const struct drop *d, int64_t row)
{
    int64_t step = 16 * KEEP_WORDS;
    uint64_t sample = d->dropout.first_sample + (uint64_t)(row / d->q_len);
    vp_bits16 keep[KEEP_WORDS];

    for (int64_t col = 0; col < d->cols; col += step) {
        int64_t n = d->cols - col < step ? d->cols - col : step;
        int64_t at = row * d->cols + col;

        d->simd->keep_row(keep, &d->dropout, sample, (uint32_t)(row % d->q_len),
                          (uint32_t)(col / 16), (n + 15) / 16);
        d->simd->drop(d->dst + at, d->x + at, keep, d->dropout.scale, d->add,
                      n);
    }
}

/* dst (+)= dropped x; forward and backward alike. */
static void drop(const struct vp_kargs *args, float *dst, bool add,
                 const float *x, int64_t begin, int64_t end)
{
    struct drop d = { .simd = vp_simd(),
                      .q_len = args->op->attr.q_len,
                      .cols = cols_of(args),
                      .dst = dst,
                      .x = x,
                      .add = add };

    if (!vp_dropout_init(args, &d.dropout)) {
        scale(args, dst, add, x, 1.0f, begin, end);
        return;
    }
    for (int64_t row = begin; row < end; row++)
        drop_row(&d, row);
}

void vp_cpu_dropout_f(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    drop(args, args->out, false, args->in[0], begin, end);
}

void vp_cpu_dropout_b(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    if (args->din[0])
        drop(args, args->din[0], args->din_add[0], args->dout, begin, end);
}
