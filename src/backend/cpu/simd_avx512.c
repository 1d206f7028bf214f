/* The row kernels on AVX-512: a vector is one register of 16 floats. */
#include "backend/cpu/simd.h"

#if defined(__x86_64__)

#include "backend/cpu/dropout.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TARGET \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#define ENTRY static TARGET
#define INLINE static inline __attribute__((always_inline)) TARGET
#define FLOAT_TABLE vp_simd_avx512
#define BF16_TABLE vp_simd_avx512_bf16
#define SIMD_NAME "AVX-512"

typedef struct {
    __m512 v;
} vec;

INLINE vec vec_load(const float *p)
{
    return (vec){ _mm512_loadu_ps(p) };
}

INLINE vec vec_load_n(const float *p, int n)
{
    return (vec){ _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p) };
}

INLINE void vec_store(float *p, vec a)
{
    _mm512_storeu_ps(p, a.v);
}

INLINE void vec_store_n(float *p, int n, vec a)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a.v);
}

INLINE vec widen(__m256i x)
{
    return (vec){ _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)) };
}

INLINE vec vec_load16(const uint16_t *p)
{
    return widen(_mm256_loadu_si256((const __m256i *)p));
}

INLINE vec vec_load16_n(const uint16_t *p, int n)
{
    return widen(_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p));
}

/* Rounds to BF16 in the upper half of each lane; the lower half is undefined.
 * NaN stays NaN. */
INLINE __m512i round_up16(vec a)
{
    __m512i bits = _mm512_castps_si512(a.v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16),
                                   _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
    __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);

    return _mm512_mask_or_epi32(_mm512_add_epi32(up, odd), nan, bits,
                                _mm512_set1_epi32(0x400000));
}

INLINE __m256i narrow(vec a)
{
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_up16(a), 16));
}

INLINE void vec_store16(uint16_t *p, vec a)
{
    _mm256_storeu_si256((__m256i *)p, narrow(a));
}

INLINE void vec_store16_n(uint16_t *p, int n, vec a)
{
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), narrow(a));
}

INLINE vec vec_round16(vec a)
{
    return (vec){ _mm512_castsi512_ps(
        _mm512_and_si512(round_up16(a), _mm512_set1_epi32((int)0xFFFF0000))) };
}

INLINE vec vec_set(float x)
{
    return (vec){ _mm512_set1_ps(x) };
}

INLINE vec vec_add(vec a, vec b)
{
    return (vec){ _mm512_add_ps(a.v, b.v) };
}

INLINE vec vec_sub(vec a, vec b)
{
    return (vec){ _mm512_sub_ps(a.v, b.v) };
}

INLINE vec vec_mul(vec a, vec b)
{
    return (vec){ _mm512_mul_ps(a.v, b.v) };
}

INLINE vec vec_div(vec a, vec b)
{
    return (vec){ _mm512_div_ps(a.v, b.v) };
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return (vec){ _mm512_fmadd_ps(a.v, b.v, c.v) };
}

INLINE vec vec_min(vec a, vec b)
{
    return (vec){ _mm512_min_ps(a.v, b.v) };
}

INLINE vec vec_max(vec a, vec b)
{
    return (vec){ _mm512_max_ps(a.v, b.v) };
}

INLINE vec vec_pick(vp_bits16 bits, vec a, vec b)
{
    return (vec){ _mm512_mask_blend_ps(bits, b.v, a.v) };
}

INLINE vec vec_pick_less(vec x, vec y, vec a, vec b)
{
    __mmask16 less = _mm512_cmp_ps_mask(x.v, y.v, _CMP_LT_OQ);

    return (vec){ _mm512_mask_blend_ps(less, b.v, a.v) };
}

INLINE vec vec_pow2(vec t)
{
    __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t.v), 23);
    __m512i one = _mm512_castps_si512(_mm512_set1_ps(1.0f));

    return (vec){ _mm512_castsi512_ps(_mm512_add_epi32(n, one)) };
}

INLINE __m256 upper_half(vec a)
{
    return _mm512_extractf32x8_ps(a.v, 1);
}

INLINE float vec_sum(vec a)
{
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), upper_half(a));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8),
                           _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

INLINE float vec_most(vec a)
{
    __m256 s8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), upper_half(a));
    __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8),
                           _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

/* ---- Philox: eight calls at once, one per 64-bit lane ------------------- */

/* Results: words 0 and 1 of each call in the lanes of w01, words 2 and 3 in
 * w23. */
struct calls {
    __m512i w01, w23;
};

/* A state word is the low half of its lane; the high half is undefined, and the
 * 32-bit multiplication ignores it. */
INLINE struct calls philox(const struct vp_dropout *dropout, uint64_t sample,
                           __m512i c0, __m512i c1)
{
    const __m512i m0 = _mm512_set1_epi64(VP_PHILOX_M0);
    const __m512i m1 = _mm512_set1_epi64(VP_PHILOX_M1);
    const __m512i step0 = _mm512_set1_epi32((int)VP_PHILOX_W0);
    const __m512i step1 = _mm512_set1_epi32((int)VP_PHILOX_W1);
    __m512i k0 = _mm512_set1_epi32((int)dropout->k0);
    __m512i k1 = _mm512_set1_epi32((int)dropout->k1);
    __m512i x0 = c0, x1 = c1;
    __m512i x2 = _mm512_set1_epi64((long long)sample);
    __m512i x3 = _mm512_srli_epi64(x2, 32);

    for (int round = 0; round < VP_PHILOX_ROUNDS; round++) {
        __m512i p0 = _mm512_mul_epu32(m0, x0);
        __m512i p1 = _mm512_mul_epu32(m1, x2);

        x0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), x1, k0, 0x96);
        x1 = p1;
        x2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), x3, k1, 0x96);
        x3 = p0;
        k0 = _mm512_add_epi32(k0, step0);
        k1 = _mm512_add_epi32(k1, step1);
    }
    return (struct calls){
        _mm512_mask_blend_epi32(0xAAAA, x0, _mm512_slli_epi64(x1, 32)),
        _mm512_mask_blend_epi32(0xAAAA, x2, _mm512_slli_epi64(x3, 32)),
    };
}

/* Returns a bit for each byte, set if the byte is at least `threshold`. */
INLINE uint64_t keep_bytes(__m512i bytes, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi8((char)(threshold - 1));

    return _mm512_cmpgt_epu8_mask(bytes, limit);
}

ENTRY void simd_keep_row(vp_bits16 *keep, const struct vp_dropout *dropout,
                         uint64_t sample, uint32_t t, uint32_t first, int64_t n)
{
    /* Interleaving the words of a pair of lanes puts call 2l of a vector in
     * 128-bit lane l of one register and call 2l + 1 in that of another. */
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    const __m512i c1 = _mm512_set1_epi64(t);

    for (int64_t i = 0; i < n; i += 8) {
        __m512i base = _mm512_set1_epi64((int64_t)first + i);
        struct calls r = philox(dropout, sample, _mm512_add_epi64(base, order),
                                c1);
        uint64_t bits[2] = {
            keep_bytes(_mm512_unpacklo_epi64(r.w01, r.w23), dropout->threshold),
            keep_bytes(_mm512_unpackhi_epi64(r.w01, r.w23), dropout->threshold),
        };

        memcpy(keep + i, bits, sizeof(bits));
    }
}

/* A vector has the calls of queries g and g + 1, in lane 4 (g % 2) + c. In a
 * lane, the two bytes of 16-bit unit j are for keys 8j + 2c and 8j + 2c + 1:
 * units are reordered from [query][c][j] to [query][j][c], 32 keys in ascending
 * order. */
ENTRY void simd_keep_tile(vp_bits16 *keep, int64_t ld,
                          const struct vp_dropout *dropout, uint64_t sample,
                          int head, uint32_t q16, int64_t n_k32)
{
    const __m256i one_query = _mm256_setr_epi16(0, 4, 8, 12, 1, 5, 9, 13, 2, 6,
                                                10, 14, 3, 7, 11, 15);
    const __m512i order = _mm512_inserti64x4(
        _mm512_castsi256_si512(one_query),
        _mm256_add_epi16(one_query, _mm256_set1_epi16(16)), 1);
    const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);

    for (int64_t k32 = 0; k32 < n_k32; k32++) {
        __m512i c0 = _mm512_set1_epi64((int64_t)q16 << 16 | k32);

        for (int g = 0; g < 8; g += 2) {
            __m512i c1 = _mm512_add_epi64(
                _mm512_set1_epi64((int64_t)head << 8 | g << 2), lane);
            struct calls r = philox(dropout, sample, c0, c1);
            uint64_t low = keep_bytes(_mm512_permutexvar_epi16(order, r.w01),
                                      dropout->threshold);
            uint64_t high = keep_bytes(_mm512_permutexvar_epi16(order, r.w23),
                                       dropout->threshold);
            uint32_t row[4] = { (uint32_t)low, (uint32_t)(low >> 32),
                                (uint32_t)high, (uint32_t)(high >> 32) };

            memcpy(keep + g * ld + 2 * k32, &row[0], 4);
            memcpy(keep + (g + 1) * ld + 2 * k32, &row[1], 4);
            memcpy(keep + (g + 8) * ld + 2 * k32, &row[2], 4);
            memcpy(keep + (g + 9) * ld + 2 * k32, &row[3], 4);
        }
    }
}

#include "backend/cpu/simd_tables.inc"

#else
typedef int vp_simd_avx512_absent;
#endif
