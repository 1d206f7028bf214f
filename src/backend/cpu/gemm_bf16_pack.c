/* Packs operands of BF16 products into the strips that gemm_bf16.h
 * describes. */
#include "backend/cpu/gemm_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define INLINE static inline __attribute__((always_inline)) TARGET

enum { TILE = 16, TILE_ELEMENTS = 512 };

/* Returns a mask of the first n of 32 lanes; an empty one for n <= 0. */
INLINE __mmask32 below(int64_t n)
{
    return n >= 32 ? 0xFFFFFFFFu : n <= 0 ? 0 : (1u << n) - 1;
}

/* Loads 16 rows of 32 elements from `n` rows of `k` elements; the rest is
 * zero. */
INLINE void load_rows(__m512i r[TILE], const uint16_t *src, int64_t ld,
                      int64_t n, int64_t k)
{
    for (int i = 0; i < TILE; i++)
        r[i] = i < n ? _mm512_maskz_loadu_epi16(below(k), src + i * ld)
                     : _mm512_setzero_si512();
}

/* Loads 16 pairs of rows and interleaves the elements of each pair, from `k`
 * rows of `n` elements; the rest is zero. */
INLINE void load_pairs(__m512i r[TILE], const uint16_t *src, int64_t ld,
                       int64_t n, int64_t k)
{
    __mmask16 columns = (__mmask16)below(n);

    for (int i = 0; i < TILE; i++) {
        __m256i first = _mm256_setzero_si256(), second = first;

        if (2 * i < k)
            first = _mm256_maskz_loadu_epi16(columns, src + 2 * i * ld);
        if (2 * i + 1 < k)
            second = _mm256_maskz_loadu_epi16(columns, src + (2 * i + 1) * ld);
        r[i] = _mm512_or_si512(
            _mm512_cvtepu16_epi32(first),
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
    }
}

/* Transposes a 16 x 16 matrix of pairs: first within groups of 4 rows, then
 * groups of 4 columns across them. */
INLINE void transpose(__m512i r[TILE])
{
    __m512i t[TILE];

    for (int i = 0; i < TILE; i += 4) {
        __m512i a = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        __m512i b = _mm512_unpackhi_epi32(r[i], r[i + 1]);
        __m512i c = _mm512_unpacklo_epi32(r[i + 2], r[i + 3]);
        __m512i d = _mm512_unpackhi_epi32(r[i + 2], r[i + 3]);

        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    /* t[i + j] holds columns j, j + 4, j + 8, j + 12 of rows i to i + 3. */
    for (int j = 0; j < 4; j++) {
        __m512i a = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88);
        __m512i b = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88);
        __m512i c = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xDD);
        __m512i d = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xDD);

        r[j] = _mm512_shuffle_i32x4(a, b, 0x88);
        r[8 + j] = _mm512_shuffle_i32x4(a, b, 0xDD);
        r[4 + j] = _mm512_shuffle_i32x4(c, d, 0x88);
        r[12 + j] = _mm512_shuffle_i32x4(c, d, 0xDD);
    }
}

INLINE void store(uint16_t *dst, const __m512i r[TILE])
{
    for (int i = 0; i < TILE; i++)
        _mm512_storeu_si512(dst + 32 * i, r[i]);
}

/* Packs one tile. `along`: rows of `src` run along k, and 16 of them are read;
 * else they run across k, and 32 are read. `turned`: the pairs are
 * transposed. */
INLINE void pack_tile(uint16_t *dst, const uint16_t *src, int64_t ld,
                      bool along, bool turned, int64_t n, int64_t k)
{
    __m512i r[TILE];

    if (along)
        load_rows(r, src, ld, n, k);
    else
        load_pairs(r, src, ld, n, k);
    if (turned)
        transpose(r);
    store(dst, r);
}

/* Packs the two tiles of a block of a strip, from at most `n` rows or
 * columns. */
INLINE void pack_block(uint16_t *dst, const uint16_t *src, int64_t ld,
                       bool along, bool turned, int64_t n, int64_t k)
{
    pack_tile(dst, src, ld, along, turned, n, k);
    pack_tile(dst + TILE_ELEMENTS, src + TILE * (along ? ld : 1), ld, along,
              turned, n - TILE, k);
}

/* Packs all strips. `along` and `turned` are constants after inlining. Rows of
 * `src` that run across k are read for all strips before the next rows, since
 * neighbouring strips share cache lines and pages. */
INLINE void pack(uint16_t *dst, const uint16_t *src, int64_t ld, bool along,
                 bool turned, int64_t n, int64_t k)
{
    int64_t n_blocks = (k + 31) / 32, n_strips = (n + VP_STRIP - 1) / VP_STRIP;
    int64_t n_outer = along ? n_strips : n_blocks;
    int64_t n_inner = along ? n_blocks : n_strips;

    for (int64_t outer = 0; outer < n_outer; outer++)
        for (int64_t inner = 0; inner < n_inner; inner++) {
            int64_t strip = along ? outer : inner;
            int64_t block = along ? inner : outer;
            int64_t first = strip * VP_STRIP, at = block * 32;

            pack_block(dst + (strip * n_blocks + block) * VP_STRIP_BLOCK,
                       along ? src + first * ld + at : src + at * ld + first,
                       ld, along, turned, n - first, k - at);
        }
}

TARGET void vp_pack_a(uint16_t *dst, const uint16_t *src, int64_t ld,
                      bool transposed, int64_t n, int64_t k)
{
    if (transposed)
        pack(dst, src, ld, false, true, n, k);
    else
        pack(dst, src, ld, true, false, n, k);
}

TARGET void vp_pack_b(uint16_t *dst, const uint16_t *src, int64_t ld,
                      bool transposed, int64_t n, int64_t k)
{
    if (transposed)
        pack(dst, src, ld, true, true, n, k);
    else
        pack(dst, src, ld, false, false, n, k);
}

#else
typedef int vp_gemm_pack_absent;
#endif
