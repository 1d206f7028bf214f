/* Row-sized pieces of the CPU kernels, one table per instruction set.
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

    /* dst = a + b */
    void (*add)(float *dst, const float *a, const float *b, int64_t n);
    /* dst (+)= s * x, rounded after the product and after the sum */
    void (*scale)(float *dst, const float *x, float s, bool add, int64_t n);
    /* dst (+)= s * x where the bit of `keep` is set, 0 elsewhere */
    void (*drop)(float *dst, const float *x, const vp_bits16 *keep, float s,
                 bool add, int64_t n);
    /* dst = s * token + position + type; the last two may be NULL */
    void (*embed)(float *dst, const float *token, float s,
                  const float *position, const float *type, int64_t n);
    /* dst = act(z) */
    void (*act)(float *dst, const float *z, enum vp_act act, int64_t n);
    /* dst = dout * act'(z) */
    void (*act_grad)(float *dst, const float *dout, const float *z,
                     enum vp_act act, int64_t n);
    float (*dot)(const float *a, const float *b, int64_t n);
    /* dst (+)= the sum of `rows` >= 1 rows of x, which are `ld` elements
     * apart; dst is not x. Fours of rows are added up, then added to dst. */
    void (*sum_rows)(float *dst, const float *x, int64_t rows, int64_t ld,
                     bool add, int64_t n);

    /* dst = (x - mean) * rstd * gamma + beta; stat = mean, rstd */
    void (*layernorm)(float *dst, float *stat, const float *x,
                      const float *gamma, const float *beta, float eps,
                      int64_t n);
    /* dst once more, from stat */
    void (*normalise)(float *dst, const float *x, const float *stat,
                      const float *gamma, const float *beta, int64_t n);
    /* dst (+)= gradient of x */
    void (*layernorm_grad)(float *dst, const float *dout, const float *x,
                           const float *gamma, const float *stat, bool add,
                           int64_t n);
    /* dgamma += dout * xhat; dbeta += dout */
    void (*layernorm_sums)(float *dgamma, float *dbeta, const float *dout,
                           const float *x, const float *stat, int64_t n);

    /* One row of attention over keys [0, n). In: scores; out: exp(score - m)
     * where `allow` and `keep` (NULL: all) have a bit, else 0, m being the
     * largest allowed score. Returns m, or 0 if no key is allowed;
     * *sum_out is the sum before `keep`. Elements from n to n_fill rounded up
     * to 16 are set to 0. */
    float (*softmax)(float *row, const vp_bits16 *allow, const vp_bits16 *keep,
                     int64_t n, int64_t n_fill, float *sum_out);
    /* Backward of a row: with p = exp(score - lse) where allowed, else 0,
     * and k = scale where kept, else 0:
     * row = k * p; drow = p * (k * drow - delta). */
    void (*softmax_grad)(float *row, float *drow, const vp_bits16 *allow,
                         const vp_bits16 *keep, float scale, float lse,
                         float delta, int64_t n, int64_t n_fill);

    /* The largest element, the sum of exp(x - that) and the sum of x. */
    float (*exp_sum)(const float *x, int64_t n, double *exp_out,
                     double *sum_out);
    /* dst (+)= g * (exp(x - lse) - shift) */
    void (*exp_minus)(float *dst, const float *x, float lse, float shift,
                      float g, bool add, int64_t n);

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
const struct vp_simd *vp_simd(void);

extern const struct vp_simd vp_simd_plain;
#if defined(__x86_64__)
extern const struct vp_simd vp_simd_avx2;
extern const struct vp_simd vp_simd_avx512;
#endif

#endif
