/* The row kernels on AVX2 with FMA: a vector is two registers of 8 floats. */
#include "backend/cpu/simd.h"

#if defined(__x86_64__)

#include "backend/cpu/dropout.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,fma")))
#define ENTRY static TARGET
#define INLINE static inline __attribute__((always_inline)) TARGET
#define FLOAT_TABLE vp_simd_avx2
#define BF16_TABLE vp_simd_avx2_bf16
#define SIMD_NAME "AVX2"

typedef struct {
    __m256 lo, hi;
} vec;

INLINE vec vec_load(const float *p)
{
    return (vec){ _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8) };
}

/* Returns a mask of lanes [begin, begin + 8) of a vector: all ones in lanes
 * below n. */
INLINE __m256i lanes_below(int n, int begin)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - begin), lane);
}

INLINE vec vec_load_n(const float *p, int n)
{
    return (vec){ _mm256_maskload_ps(p, lanes_below(n, 0)),
                  n > 8 ? _mm256_maskload_ps(p + 8, lanes_below(n, 8))
                        : _mm256_setzero_ps() };
}

INLINE void vec_store(float *p, vec a)
{
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}

INLINE void vec_store_n(float *p, int n, vec a)
{
    _mm256_maskstore_ps(p, lanes_below(n, 0), a.lo);
    if (n > 8)
        _mm256_maskstore_ps(p + 8, lanes_below(n, 8), a.hi);
}

INLINE __m256 widen(__m128i x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

INLINE vec vec_load16(const uint16_t *p)
{
    return (vec){ widen(_mm_loadu_si128((const __m128i *)p)),
                  widen(_mm_loadu_si128((const __m128i *)(p + 8))) };
}

INLINE vec vec_load16_n(const uint16_t *p, int n)
{
    uint16_t whole[16] = { 0 };

    memcpy(whole, p, (size_t)n * sizeof(*p));
    return vec_load16(whole);
}

/* Rounds to BF16 in the upper half of each lane; the lower half is undefined.
 * NaN stays NaN. */
INLINE __m256i round_up16(__m256 a)
{
    __m256i bits = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16),
                                   _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));

    return _mm256_blendv_epi8(_mm256_add_epi32(up, odd), quiet, nan);
}

INLINE void vec_store16(uint16_t *p, vec a)
{
    __m256i lo = _mm256_srli_epi32(round_up16(a.lo), 16);
    __m256i hi = _mm256_srli_epi32(round_up16(a.hi), 16);
    __m256i both = _mm256_packus_epi32(lo, hi);

    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(both, 0xD8));
}

INLINE void vec_store16_n(uint16_t *p, int n, vec a)
{
    uint16_t whole[16];

    vec_store16(whole, a);
    memcpy(p, whole, (size_t)n * sizeof(*p));
}

INLINE vec vec_round16(vec a)
{
    const __m256i upper = _mm256_set1_epi32((int)0xFFFF0000);

    return (vec){
        _mm256_castsi256_ps(_mm256_and_si256(round_up16(a.lo), upper)),
        _mm256_castsi256_ps(_mm256_and_si256(round_up16(a.hi), upper)),
    };
}

INLINE vec vec_set(float x)
{
    return (vec){ _mm256_set1_ps(x), _mm256_set1_ps(x) };
}

INLINE vec vec_add(vec a, vec b)
{
    return (vec){ _mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi) };
}

INLINE vec vec_sub(vec a, vec b)
{
    return (vec){ _mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi) };
}

INLINE vec vec_mul(vec a, vec b)
{
    return (vec){ _mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi) };
}

INLINE vec vec_div(vec a, vec b)
{
    return (vec){ _mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi) };
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return (vec){ _mm256_fmadd_ps(a.lo, b.lo, c.lo),
                  _mm256_fmadd_ps(a.hi, b.hi, c.hi) };
}

INLINE vec vec_min(vec a, vec b)
{
    return (vec){ _mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi) };
}

INLINE vec vec_max(vec a, vec b)
{
    return (vec){ _mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi) };
}

/* Returns eight lanes, all ones where the bit is set, else zeros. */
INLINE __m256 bits_to_lanes(int bits)
{
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i set = _mm256_and_si256(_mm256_set1_epi32(bits), bit);

    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bit));
}

INLINE vec vec_pick(vp_bits16 bits, vec a, vec b)
{
    return (vec){ _mm256_blendv_ps(b.lo, a.lo, bits_to_lanes(bits)),
                  _mm256_blendv_ps(b.hi, a.hi, bits_to_lanes(bits >> 8)) };
}

INLINE vec vec_pick_less(vec x, vec y, vec a, vec b)
{
    return (vec){
        _mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(x.lo, y.lo, _CMP_LT_OQ)),
        _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(x.hi, y.hi, _CMP_LT_OQ)),
    };
}

INLINE __m256 half_pow2(__m256 t)
{
    __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    __m256i one = _mm256_castps_si256(_mm256_set1_ps(1.0f));

    return _mm256_castsi256_ps(_mm256_add_epi32(n, one));
}

INLINE vec vec_pow2(vec t)
{
    return (vec){ half_pow2(t.lo), half_pow2(t.hi) };
}

INLINE float vec_sum(vec a)
{
    __m256 s8 = _mm256_add_ps(a.lo, a.hi);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8),
                           _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

INLINE float vec_most(vec a)
{
    __m256 s8 = _mm256_max_ps(a.lo, a.hi);
    __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8),
                           _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

/* ---- Philox: four calls at once, one per 64-bit lane -------------------- */

/* Results: words 0 and 1 of each call in the lanes of w01, words 2 and 3 in
 * w23. */
struct calls {
    __m256i w01, w23;
};

INLINE __m256i xor3(__m256i a, __m256i b, __m256i c)
{
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}

/* A state word is the low half of its lane; the high half is undefined, and the
 * 32-bit multiplication ignores it. */
INLINE struct calls philox(const struct vp_dropout *dropout, uint64_t sample,
                           __m256i c0, __m256i c1)
{
    const __m256i m0 = _mm256_set1_epi64x(VP_PHILOX_M0);
    const __m256i m1 = _mm256_set1_epi64x(VP_PHILOX_M1);
    const __m256i step0 = _mm256_set1_epi32((int)VP_PHILOX_W0);
    const __m256i step1 = _mm256_set1_epi32((int)VP_PHILOX_W1);
    __m256i k0 = _mm256_set1_epi32((int)dropout->k0);
    __m256i k1 = _mm256_set1_epi32((int)dropout->k1);
    __m256i x0 = c0, x1 = c1;
    __m256i x2 = _mm256_set1_epi64x((long long)sample);
    __m256i x3 = _mm256_srli_epi64(x2, 32);

    for (int round = 0; round < VP_PHILOX_ROUNDS; round++) {
        __m256i p0 = _mm256_mul_epu32(m0, x0);
        __m256i p1 = _mm256_mul_epu32(m1, x2);

        x0 = xor3(_mm256_srli_epi64(p1, 32), x1, k0);
        x1 = p1;
        x2 = xor3(_mm256_srli_epi64(p0, 32), x3, k1);
        x3 = p0;
        k0 = _mm256_add_epi32(k0, step0);
        k1 = _mm256_add_epi32(k1, step1);
    }
    return (struct calls){
        _mm256_blend_epi32(x0, _mm256_slli_epi64(x1, 32), 0xAA),
        _mm256_blend_epi32(x2, _mm256_slli_epi64(x3, 32), 0xAA),
    };
}

/* Returns a bit for each byte, set if the byte is at least `threshold`. */
INLINE uint32_t keep_bytes(__m256i bytes, uint32_t threshold)
{
    __m256i limit = _mm256_set1_epi8((char)(threshold - 1));
    __m256i drop = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, limit), bytes);

    return ~(uint32_t)_mm256_movemask_epi8(drop);
}

ENTRY void simd_keep_row(vp_bits16 *keep, const struct vp_dropout *dropout,
                         uint64_t sample, uint32_t t, uint32_t first, int64_t n)
{
    /* Interleaving the words of a pair of lanes puts calls 0 and 2 of a vector
     * in one register and calls 1 and 3 in another. */
    const __m256i order = _mm256_setr_epi64x(0, 2, 1, 3);
    const __m256i c1 = _mm256_set1_epi64x(t);

    for (int64_t i = 0; i < (n + 7) / 8 * 8; i += 4) {
        __m256i base = _mm256_set1_epi64x((int64_t)first + i);
        struct calls r = philox(dropout, sample, _mm256_add_epi64(base, order),
                                c1);
        uint32_t bits[2] = {
            keep_bytes(_mm256_unpacklo_epi64(r.w01, r.w23), dropout->threshold),
            keep_bytes(_mm256_unpackhi_epi64(r.w01, r.w23), dropout->threshold),
        };

        memcpy(keep + i, bits, sizeof(bits));
    }
}

/* Reorders the 16-bit units of a query from [c][j] to [j][c], both 0..3: then
 * the bytes are those of 32 keys in ascending order. */
INLINE __m256i order_keys(__m256i lanes)
{
    const __m256i in_pair = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    const __m256i pairs = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

    return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(lanes, in_pair),
                                       pairs);
}

ENTRY void simd_keep_tile(vp_bits16 *keep, int64_t ld,
                          const struct vp_dropout *dropout, uint64_t sample,
                          int head, uint32_t q16, int64_t n_k32)
{
    const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);

    for (int64_t k32 = 0; k32 < n_k32; k32++) {
        __m256i c0 = _mm256_set1_epi64x((int64_t)q16 << 16 | k32);

        for (int g = 0; g < 8; g++) {
            __m256i c1 = _mm256_add_epi64(
                _mm256_set1_epi64x((int64_t)head << 8 | g << 2), lane);
            struct calls r = philox(dropout, sample, c0, c1);
            uint32_t low = keep_bytes(order_keys(r.w01), dropout->threshold);
            uint32_t high = keep_bytes(order_keys(r.w23), dropout->threshold);

            memcpy(keep + g * ld + 2 * k32, &low, 4);
            memcpy(keep + (g + 8) * ld + 2 * k32, &high, 4);
        }
    }
}

#include "backend/cpu/simd_tables.inc"

#else
typedef int vp_simd_avx2_absent;
#endif
