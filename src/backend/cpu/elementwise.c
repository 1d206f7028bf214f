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

static void add(const struct vp_kargs *args, void *dst, const void *a,
                const void *b, int64_t begin, int64_t end)
{
    const struct vp_simd *simd = vp_simd(args->graph->dtype);
    int64_t cols = cols_of(args), at = begin * cols;

    simd->add(vp_elem(simd, dst, at), vp_elem_of(simd, a, at),
              vp_elem_of(simd, b, at), (end - begin) * cols);
}

void vp_cpu_add_f(const struct vp_kargs *args, int64_t begin, int64_t end)
{
    add(args, args->out, args->in[0], args->in[1], begin, end);
}

/* dst (+)= s * x */
static void scale(const struct vp_kargs *args, void *dst, bool add,
                  const void *x, float s, int64_t begin, int64_t end)
{
    const struct vp_simd *simd = vp_simd(args->graph->dtype);
    int64_t cols = cols_of(args), at = begin * cols;

    simd->scale(vp_elem(simd, dst, at), vp_elem_of(simd, x, at), s, add,
                (end - begin) * cols);
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

/* Copies values of any type, for instance a mask. */
static void copy(const struct vp_kargs *args, void *dst, const void *x,
                 int64_t begin, int64_t end)
{
    const struct vp_value *value = vp_arg_value(args, args->op->in[0]);
    int64_t row_bytes = value->cols * vp_dtype_bytes(value->dtype);

    memcpy((char *)dst + begin * row_bytes, (const char *)x + begin * row_bytes,
           (size_t)((end - begin) * row_bytes));
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

enum { KEEP_WORDS = 256 }; /* words of mask at a time, for 4096 columns */

struct drop {
    const struct vp_simd *simd;
    struct vp_dropout dropout;
    int64_t q_len, cols;
    int64_t first_row, first_col; /* where this member's slice begins */
    void *dst;
    const void *x;
    bool add;
};

/* Writes the dropout mask of `n` columns from `col` on, which need not be a
 * multiple of 16. */
static void keep_cols(const struct drop *d, vp_bits16 *keep, uint64_t sample,
                      uint32_t row, int64_t col, int64_t n)
{
    int shift = (int)(col % 16);
    int64_t n_words = (n + 15) / 16;

    d->simd->keep_row(keep, &d->dropout, sample, row, (uint32_t)(col / 16),
                      n_words + (shift > 0));
    for (int64_t i = 0; shift > 0 && i < n_words; i++)
        keep[i] = (vp_bits16)(keep[i] >> shift | keep[i + 1] << (16 - shift));
}

static void drop_row(const struct drop *d, int64_t row)
{
    int64_t step = 16 * KEEP_WORDS;
    int64_t at_row = d->first_row + row;
    uint64_t sample = d->dropout.first_sample + (uint64_t)(at_row / d->q_len);
    vp_bits16 keep[KEEP_WORDS + 8]; /* keep_row() writes multiples of 8 words */

    for (int64_t col = 0; col < d->cols; col += step) {
        int64_t n = d->cols - col < step ? d->cols - col : step;
        int64_t at = row * d->cols + col;

        keep_cols(d, keep, sample, (uint32_t)(at_row % d->q_len),
                  d->first_col + col, n);
        d->simd->drop(vp_elem(d->simd, d->dst, at),
                      vp_elem_of(d->simd, d->x, at), keep, d->dropout.scale,
                      d->add, n);
    }
}

/* dst = x with dropout, added to dst if `add`; the same in forward and
 * backward. */
static void drop(const struct vp_kargs *args, void *dst, bool add,
                 const void *x, int64_t begin, int64_t end)
{
    struct drop d = { .simd = vp_simd(args->graph->dtype),
                      .q_len = args->op->attr.q_len,
                      .cols = cols_of(args),
                      .first_row = vp_arg_first_row(args, args->op->out),
                      .first_col = vp_arg_first_col(args, args->op->out),
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
