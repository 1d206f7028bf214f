/* The row kernels in plain C: for machines without AVX2, and as
 * documentation. */
#include "backend/cpu/simd.h"

#include "backend/cpu/dropout.h"

#include <math.h>
#include <string.h>

#define ENTRY static
#define INLINE static inline
#define FLOAT_TABLE vp_simd_plain
#define BF16_TABLE vp_simd_plain_bf16
#define SIMD_NAME "plain C"

enum { LANES = 16 };

typedef struct {
    float v[LANES];
} vec;

#define EACH_LANE(r, expression)        \
    do {                                \
        for (int i = 0; i < LANES; i++) \
            (r).v[i] = (expression);    \
    } while (0)

INLINE vec vec_load(const float *p)
{
    vec r;

    memcpy(r.v, p, sizeof(r.v));
    return r;
}

INLINE vec vec_load_n(const float *p, int n)
{
    vec r = { { 0 } };

    memcpy(r.v, p, (size_t)n * sizeof(*p));
    return r;
}

INLINE void vec_store(float *p, vec a)
{
    memcpy(p, a.v, sizeof(a.v));
}

INLINE void vec_store_n(float *p, int n, vec a)
{
    memcpy(p, a.v, (size_t)n * sizeof(*p));
}

INLINE vec vec_load16_n(const uint16_t *p, int n)
{
    vec r = { { 0 } };

    vp_dtype_expand(VP_DTYPE_BF16, r.v, p, n);
    return r;
}

INLINE vec vec_load16(const uint16_t *p)
{
    return vec_load16_n(p, LANES);
}

/* `p` may point into an array of floats, as in softmax(), so it is written by
 * memcpy(). */
INLINE void vec_store16_n(uint16_t *p, int n, vec a)
{
    uint16_t r[LANES];

    vp_dtype_round(VP_DTYPE_BF16, r, a.v, n);
    memcpy(p, r, (size_t)n * sizeof(*p));
}

INLINE void vec_store16(uint16_t *p, vec a)
{
    vec_store16_n(p, LANES, a);
}

INLINE vec vec_round16(vec a)
{
    vp_dtype_shorten(VP_DTYPE_BF16, a.v, LANES);
    return a;
}

INLINE vec vec_set(float x)
{
    vec r;

    EACH_LANE(r, x);
    return r;
}

INLINE vec vec_add(vec a, vec b)
{
    EACH_LANE(a, a.v[i] + b.v[i]);
    return a;
}

INLINE vec vec_sub(vec a, vec b)
{
    EACH_LANE(a, a.v[i] - b.v[i]);
    return a;
}

INLINE vec vec_mul(vec a, vec b)
{
    EACH_LANE(a, a.v[i] * b.v[i]);
    return a;
}

INLINE vec vec_div(vec a, vec b)
{
    EACH_LANE(a, a.v[i] / b.v[i]);
    return a;
}

/* Replaces fmaf(), which is a slow library call without the instruction. The
 * product is exact in double, so the result differs only where rounding the sum
 * twice makes a difference: about once in 2^29. */
INLINE float fused(float a, float b, float c)
{
#if defined(FP_FAST_FMAF)
    return fmaf(a, b, c);
#else
    return (float)((double)a * b + c);
#endif
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    EACH_LANE(a, fused(a.v[i], b.v[i], c.v[i]));
    return a;
}

INLINE vec vec_min(vec a, vec b)
{
    EACH_LANE(a, a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
    return a;
}

INLINE vec vec_max(vec a, vec b)
{
    EACH_LANE(a, a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
    return a;
}

INLINE vec vec_pick(vp_bits16 bits, vec a, vec b)
{
    EACH_LANE(a, bits >> i & 1 ? a.v[i] : b.v[i]);
    return a;
}

INLINE vec vec_pick_less(vec x, vec y, vec a, vec b)
{
    EACH_LANE(a, x.v[i] < y.v[i] ? a.v[i] : b.v[i]);
    return a;
}

INLINE vec vec_pow2(vec t)
{
    uint32_t bits[LANES];

    memcpy(bits, t.v, sizeof(bits));
    for (int i = 0; i < LANES; i++)
        bits[i] = (bits[i] << 23) + 0x3F800000u;
    memcpy(t.v, bits, sizeof(bits));
    return t;
}

INLINE float vec_sum(vec a)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a.v[i] += a.v[i + half];
    return a.v[0];
}

INLINE float vec_most(vec a)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    return a.v[0];
}

/* Returns the random words for counter (c0, c1, sample). */
static struct vp_rng4 philox(const struct vp_dropout *dropout, uint64_t sample,
                             uint32_t c0, uint32_t c1)
{
    struct vp_rng4 x = { { c0, c1, (uint32_t)sample,
                           (uint32_t)(sample >> 32) } };

    return vp_philox(x, dropout->k0, dropout->k1);
}

ENTRY void simd_keep_row(vp_bits16 *keep, const struct vp_dropout *dropout,
                         uint64_t sample, uint32_t t, uint32_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        struct vp_rng4 r = philox(dropout, sample, first + (uint32_t)i, t);
        unsigned bits = 0;

        for (int byte = 0; byte < 16; byte++)
            bits |= (unsigned)(vp_rng_byte(r, byte) >= dropout->threshold)
                    << byte;
        keep[i] = (vp_bits16)bits;
    }
}

/* Sets the bits of one call's keys in the mask words of a query. */
static void put_keys(vp_bits16 *word, struct vp_rng4 r, int a, unsigned c,
                     uint32_t threshold)
{
    for (int j = 0; j < 4; j++) {
        for (int b = 0; b < 2; b++) {
            unsigned key = 8 * (unsigned)j + 2 * c + (unsigned)b;

            if (vp_rng_byte(r, 8 * a + 2 * j + b) >= threshold)
                word[key / 16] |= (vp_bits16)(1u << key % 16);
        }
    }
}

ENTRY void simd_keep_tile(vp_bits16 *keep, int64_t ld,
                          const struct vp_dropout *dropout, uint64_t sample,
                          int head, uint32_t q16, int64_t n_k32)
{
    for (int q = 0; q < 16; q++)
        memset(keep + q * ld, 0, (size_t)n_k32 * 2 * sizeof(*keep));
    for (int64_t k32 = 0; k32 < n_k32; k32++) {
        for (unsigned gc = 0; gc < 32; gc++) {
            struct vp_rng4 r = philox(dropout, sample,
                                      q16 << 16 | (uint32_t)k32,
                                      (uint32_t)head << 8 | gc);
            vp_bits16 *word = keep + gc / 4 * ld + 2 * k32;

            put_keys(word, r, 0, gc % 4, dropout->threshold);
            put_keys(word + 8 * ld, r, 1, gc % 4, dropout->threshold);
        }
    }
}

#include "backend/cpu/simd_tables.inc"
