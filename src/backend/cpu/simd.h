/* Row-sized pieces of the CPU kernels, one table per instruction set and type of
 * elements. Elements are those of values and weights, F32 or BF16; what a function
 * names as float is float in both tables, and so is everything in between. BF16 is
 * rounded to the nearest, ties to even, when it is written.
 *
 * All sums run in 16 lanes (element i in lane i % 16) that are added in one
 * fixed tree, and every multiply-add is fused, so AVX2 and AVX-512 give the
 * same bits. Arrays need no alignment and are touched only in [0, n) unless
 * said otherwise; `dst` may be any input that has the same index. */
#ifndef VP_BACKEND_CPU_SIMD_H
#define VP_BACKEND_CPU_SIMD_H

#include "graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

/* Bit masks hold one bit per element, 16 elements to a word: element i is bit
 * i % 16 of word i / 16. */
typedef uint16_t vp_bits16;

struct vp_dropout;
struct vp_simd {
    const char *name;
    enum vp_dtype dtype; /* of elements */

    /* dst = a + b */
    void (*add)(void *dst, const void *a, const void *b, int64_t n);
    /* dst (+)= s * x; F32: rounded after the product and after the sum */
    void (*scale)(void *dst, const void *x, float s, bool add, int64_t n);
    /* The same from floats to elements, and added to floats. */
    void (*put_floats)(void *dst, const float *x, float s, bool add, int64_t n);
    void (*add_to_floats)(float *dst, const void *x, float s, int64_t n);
    /* dst (+)= s * x where the bit of `keep` is set, 0 elsewhere */
    void (*drop)(void *dst, const void *x, const vp_bits16 *keep, float s,
                 bool add, int64_t n);
    /* dst = s * token + position + type; the last two may be NULL */
    void (*embed)(void *dst, const void *token, float s, const void *position,
                  const void *type, int64_t n);
    /* dst = act(z) */
    void (*act)(void *dst, const void *z, enum vp_act act, int64_t n);
    /* z = x + bias and out = act(z), from z as it is written; `bias` may be
     * NULL, and so may `z`, which is not written without an activation. F32: x
     * may be z or out. */
    void (*finish)(void *out, void *z, const float *x, const void *bias,
                   enum vp_act act, int64_t n);
    /* dst = dout * act'(z) */
    void (*act_grad)(void *dst, const void *dout, const void *z,
                     enum vp_act act, int64_t n);
    float (*dot)(const void *a, const void *b, int64_t n);
    /* dst [m, n] = a [m, k] b^T, b [n, k]; rows are ld_dst, ld_a and ld_b
     * elements apart. Each element is dot() of its rows: its bits depend on
     * nothing else. Reads b once, for few rows of a. */
    void (*dots)(float *dst, int64_t ld_dst, const void *a, int64_t ld_a,
                 int64_t m, const void *b, int64_t ld_b, int64_t n, int64_t k);
    /* dst += the sum of weight[i] * row i of x, one after the other; rows are
     * `ld` elements apart. */
    void (*add_weighted)(float *dst, const float *weight, const void *x,
                         int64_t rows, int64_t ld, int64_t n);
    /* dst (+)= the sum of `rows` >= 1 rows of x, which are `ld` elements
     * apart; dst is not x. Fours of rows are added up, then added to dst. */
    void (*sum_rows)(float *dst, const void *x, int64_t rows, int64_t ld,
                     bool add, int64_t n);

    /* dst = (x - mean) * rstd * gamma + beta; stat = mean, rstd */
    void (*layernorm)(void *dst, float *stat, const void *x, const void *gamma,
                      const void *beta, float eps, int64_t n);
    /* dst once more, from stat */
    void (*normalise)(void *dst, const void *x, const float *stat,
                      const void *gamma, const void *beta, int64_t n);
    /* dst (+)= gradient of x */
    void (*layernorm_grad)(void *dst, const void *dout, const void *x,
                           const void *gamma, const float *stat, bool add,
                           int64_t n);
    /* dgamma += dout * xhat; dbeta += dout */
    void (*layernorm_sums)(float *dgamma, float *dbeta, const void *dout,
                           const void *x, const float *stat, int64_t n);

    /* One row of attention over keys [0, n). In: scores, to be multiplied by
     * `scale`; out, as elements from the same address on: exp(score - m)
     * where `allow` and `keep` (NULL: all) have a bit, else 0, m being the
     * largest allowed score. Returns m, or 0 if no key is allowed;
     * *sum_out is the sum before `keep`. Elements from n to n_fill rounded up
     * to 16 are set to 0. */
    float (*softmax)(float *row, float scale, const vp_bits16 *allow,
                     const vp_bits16 *keep, int64_t n, int64_t n_fill,
                     float *sum_out);
    /* Backward of a row: with p = exp(scale * score - lse) where allowed, else
     * 0, and k = `kept` where kept, else 0:
     * row = k * p; drow = p * (k * drow - delta). */
    void (*softmax_grad)(float *row, float *drow, float scale,
                         const vp_bits16 *allow, const vp_bits16 *keep,
                         float kept, float lse, float delta, int64_t n,
                         int64_t n_fill);

    /* The largest element, the sum of exp(x - that) and the sum of x. */
    float (*exp_sum)(const void *x, int64_t n, double *exp_out,
                     double *sum_out);
    /* The first of n elements that is the largest; -1: one is not finite. */
    int64_t (*argmax)(const void *x, int64_t n);
    /* dst (+)= g * (exp(x - lse) - shift) */
    void (*exp_minus)(void *dst, const void *x, float lse, float shift, float g,
                      bool add, int64_t n);

    /* Which elements dropout keeps, as bits. `sample` is a sample's id.
     * Rows: groups [first, first + n) of 16 columns of row t of the sample;
     * writes whole eights of words. */
    void (*keep_row)(vp_bits16 *keep, const struct vp_dropout *dropout,
                     uint64_t sample, uint32_t t, uint32_t first, int64_t n);
    /* Attention: queries [16 q16, 16 q16 + 16), keys [0, 32 * n_k32); a
     * query's words start `ld` words after those of the query before. */
    void (*keep_tile)(vp_bits16 *keep, int64_t ld,
                      const struct vp_dropout *dropout, uint64_t sample,
                      int head, uint32_t q16, int64_t n_k32);
};

/* The best table that this machine can run, or the one that a test forced. */
const struct vp_simd *vp_simd(enum vp_dtype dtype);

/* Element i of an array of the table's elements. */
static inline void *vp_elem(const struct vp_simd *simd, void *array, int64_t i)
{
    return (char *)array + i * vp_dtype_bytes(simd->dtype);
}

static inline const void *vp_elem_of(const struct vp_simd *simd,
                                     const void *array, int64_t i)
{
    return (const char *)array + i * vp_dtype_bytes(simd->dtype);
}

/* As a number. */
float vp_elem_get(const struct vp_simd *simd, const void *array, int64_t i);
void vp_elem_put(const struct vp_simd *simd, void *array, int64_t i, float x);

extern const struct vp_simd vp_simd_plain, vp_simd_plain_bf16;
#if defined(__x86_64__)
extern const struct vp_simd vp_simd_avx2, vp_simd_avx2_bf16;
extern const struct vp_simd vp_simd_avx512, vp_simd_avx512_bf16;
#endif

#endif
