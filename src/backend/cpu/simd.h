/* Row kernels: vectorised loops over one row that the CPU kernels are made of.
 * There is one table per instruction set and element type, F32 or BF16. void
 * pointers are to elements; float pointers are to floats in both tables, and
 * intermediate results are float. BF16 is rounded to nearest, ties to even,
 * when it is written.
 *
 * All sums run in 16 lanes (element i in lane i % 16) that are added in one
 * fixed tree, and every multiply-add is fused, so AVX2 and AVX-512 give the
 * same bits. Arrays need no alignment. A function touches elements [0, n) only,
 * unless its comment says otherwise. `dst` may be the memory of an input that
 * is read at the same index.
 *
 * "dst (+)= x" means: dst = x, or dst += x if `add`. */
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
    enum vp_dtype dtype; /* type of elements */

    /* dst = a + b */
    void (*add)(void *dst, const void *a, const void *b, int64_t n);
    /* dst (+)= s * x; not fused: F32 is rounded after the product and the
     * sum */
    void (*scale)(void *dst, const void *x, float s, bool add, int64_t n);
    /* dst (+)= s * x from floats to elements; dst += s * x from elements to
     * floats */
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
    /* z = x + bias, rounded to an element; out = act(z). `bias` may be NULL.
     * `z` may be NULL, and is not written if there is no activation. F32: x may
     * be z or out. */
    void (*finish)(void *out, void *z, const float *x, const void *bias,
                   enum vp_act act, int64_t n);
    /* dst = dout * act'(z) */
    void (*act_grad)(void *dst, const void *dout, const void *z,
                     enum vp_act act, int64_t n);
    /* Returns the sum of a * b. */
    float (*dot)(const void *a, const void *b, int64_t n);
    /* dst [m, n] = a [m, k] b^T, b [n, k]; rows are ld_dst, ld_a and ld_b
     * elements apart. Each element has the bits of dot() of its two rows. For
     * few rows of a: reads b once per 4 of them. */
    void (*dots)(float *dst, int64_t ld_dst, const void *a, int64_t ld_a,
                 int64_t m, const void *b, int64_t ld_b, int64_t n, int64_t k);
    /* dst += weight[i] * row i of x, for each i < rows in order; rows are `ld`
     * elements apart. */
    void (*add_weighted)(float *dst, const float *weight, const void *x,
                         int64_t rows, int64_t ld, int64_t n);
    /* dst (+)= the sum of `rows` >= 1 rows of x, which are `ld` elements apart;
     * dst is not x. Each 4 rows are added, and their sum is added to dst. */
    void (*sum_rows)(float *dst, const void *x, int64_t rows, int64_t ld,
                     bool add, int64_t n);

    /* dst = (x - mean) * rstd * gamma + beta; stat = mean, rstd */
    void (*layernorm)(void *dst, float *stat, const void *x, const void *gamma,
                      const void *beta, float eps, int64_t n);
    /* dst as layernorm() writes it, from stat */
    void (*normalise)(void *dst, const void *x, const float *stat,
                      const void *gamma, const void *beta, int64_t n);
    /* dst (+)= gradient of x */
    void (*layernorm_grad)(void *dst, const void *dout, const void *x,
                           const void *gamma, const float *stat, bool add,
                           int64_t n);
    /* dgamma += dout * xhat; dbeta += dout */
    void (*layernorm_sums)(float *dgamma, float *dbeta, const void *dout,
                           const void *x, const float *stat, int64_t n);

    /* Softmax numerators of one row of attention over keys [0, n), in place.
     * Reads floats, which are scores after multiplication by `scale`, and
     * writes elements from the same address on: exp(score - m) where `allow`
     * and `keep` (NULL: all) have a bit, else 0; m is the largest allowed
     * score. Returns m, or 0 if no key is allowed. *sum_out is the sum of
     * exp(score - m) before `keep` is applied. Elements from n to n_fill
     * rounded up to 16 are set to 0. */
    float (*softmax)(float *row, float scale, const vp_bits16 *allow,
                     const vp_bits16 *keep, int64_t n, int64_t n_fill,
                     float *sum_out);
    /* Backward of a row, in place: with p = exp(scale * row - lse) where
     * `allow` has a bit, else 0, and k = `kept` where `keep` has a bit, else 0:
     * drow = p * (k * drow - delta); row = k * p. */
    void (*softmax_grad)(float *row, float *drow, float scale,
                         const vp_bits16 *allow, const vp_bits16 *keep,
                         float kept, float lse, float delta, int64_t n,
                         int64_t n_fill);

    /* Returns the largest element m; also computes the sum of exp(x - m) and of
     * x. */
    float (*exp_sum)(const void *x, int64_t n, double *exp_out,
                     double *sum_out);
    /* Returns the index of the first largest element, or -1 if one is not
     * finite. */
    int64_t (*argmax)(const void *x, int64_t n);
    /* dst (+)= g * (exp(x - lse) - shift) */
    void (*exp_minus)(void *dst, const void *x, float lse, float shift, float g,
                      bool add, int64_t n);

    /* Dropout masks: a bit is set for each element that is kept. `sample` is
     * the sample's id. For values: n words, for columns [16 first, 16 first +
     * 16 n) of row t of the sample; writes up to a multiple of 8 words. */
    void (*keep_row)(vp_bits16 *keep, const struct vp_dropout *dropout,
                     uint64_t sample, uint32_t t, uint32_t first, int64_t n);
    /* For attention: queries [16 q16, 16 q16 + 16), keys [0, 32 n_k32); the
     * words of successive queries are `ld` words apart. */
    void (*keep_tile)(vp_bits16 *keep, int64_t ld,
                      const struct vp_dropout *dropout, uint64_t sample,
                      int head, uint32_t q16, int64_t n_k32);
};

/* Returns the table of the instruction set in use; see vp_cpu_isa(). */
const struct vp_simd *vp_simd(enum vp_dtype dtype);

/* Return the address of element i of an array of the table's elements. */
static inline void *vp_elem(const struct vp_simd *simd, void *array, int64_t i)
{
    return (char *)array + i * vp_dtype_bytes(simd->dtype);
}

static inline const void *vp_elem_of(const struct vp_simd *simd,
                                     const void *array, int64_t i)
{
    return (const char *)array + i * vp_dtype_bytes(simd->dtype);
}

/* Read and write element i as a float. */
float vp_elem_get(const struct vp_simd *simd, const void *array, int64_t i);
void vp_elem_put(const struct vp_simd *simd, void *array, int64_t i, float x);

extern const struct vp_simd vp_simd_plain, vp_simd_plain_bf16;
#if defined(__x86_64__)
extern const struct vp_simd vp_simd_avx2, vp_simd_avx2_bf16;
extern const struct vp_simd vp_simd_avx512, vp_simd_avx512_bf16;
#endif

#endif
