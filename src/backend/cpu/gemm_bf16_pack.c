/* Packs operands of BF16 products into the strips that gemm_bf16.h
 * describes. */
#include "backend/cpu/gemm_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define INLINE static inline __attribute__((always_inline)) TARGET

enum {
    TILE = 16,
    TILE_ELEMENTS = 512,
    AHEAD = 8, /* number of blocks by which the source is prefetched */
};

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

/* Loads 16 pairs of rows of 32 elements and interleaves the elements of each
 * pair, from `k` rows of `n` elements; the rest is zero. r gets the first 16
 * columns, s the last. */
INLINE void load_pairs(__m512i r[TILE], __m512i s[TILE], const uint16_t *src,
                       int64_t ld, int64_t n, int64_t k)
{
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i last = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    __mmask32 columns = below(n);

    for (int i = 0; i < TILE; i++) {
        __m512i x = _mm512_setzero_si512(), y = x, low, high;

        if (2 * i < k)
            x = _mm512_maskz_loadu_epi16(columns, src + 2 * i * ld);
        if (2 * i + 1 < k)
            y = _mm512_maskz_loadu_epi16(columns, src + (2 * i + 1) * ld);
        /* Both interleave within groups of 8 columns: low the first 4 of each
         * group, high the last 4. */
        low = _mm512_unpacklo_epi16(x, y);
        high = _mm512_unpackhi_epi16(x, y);
        r[i] = _mm512_permutex2var_epi64(low, first, high);
        s[i] = _mm512_permutex2var_epi64(low, last, high);
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

/* Packs the two tiles of a block of a strip, from at most `n` rows or columns.
 * `along`: rows of `src` run along k, else across. `turned`: the pairs are
 * transposed. */
INLINE void pack_block(uint16_t *dst, const uint16_t *src, int64_t ld,
                       bool along, bool turned, int64_t n, int64_t k)
{
    __m512i r[TILE], s[TILE];

    if (along)
        load_rows(r, src, ld, n, k);
    else
        load_pairs(r, s, src, ld, n, k);
    if (turned)
        transpose(r);
    store(dst, r);
    if (along)
        load_rows(s, src + TILE * ld, ld, n - TILE, k);
    if (turned)
        transpose(s);
    store(dst + TILE_ELEMENTS, s);
}

/* Prefetches the part of the source that the block at (outer, inner) reads: 32
 * rows of one cache line each. It may be past the last block: the next call
 * often continues there, and a prefetch does not fault. */
INLINE void fetch_block(const uint16_t *src, int64_t ld, int64_t outer,
                        int64_t inner)
{
    const char *from = (const char *)(src + outer * 32 * ld + inner * 32);

    for (int i = 0; i < 32; i++)
        _mm_prefetch(from + i * ld * (int64_t)sizeof(*src), _MM_HINT_T1);
}

/* Packs strips from `first` on. `along` and `turned` are constants after
 * inlining. Rows of `src` that run across k are read for all strips before the
 * next rows, since neighbouring strips share cache lines and pages. In both
 * orders, a block reads 32 rows, and the inner loop moves along them. */
INLINE void pack(const struct vp_strips *to, int64_t first, const uint16_t *src,
                 int64_t ld, bool along, bool turned, int64_t n, int64_t k)
{
    int64_t n_strips = (n + VP_STRIP - 1) / VP_STRIP;
    int64_t n_outer = along ? n_strips : to->n_blocks;
    int64_t n_inner = along ? to->n_blocks : n_strips;

    for (int64_t outer = 0; outer < n_outer; outer++)
        for (int64_t inner = 0; inner < n_inner; inner++) {
            int64_t strip = along ? outer : inner;
            int64_t block = along ? inner : outer;
            int64_t next = inner + AHEAD;

            fetch_block(src, ld, outer + next / n_inner, next % n_inner);
            pack_block(vp_strip_at(to, first + strip, block),
                       src + outer * 32 * ld + inner * 32, ld, along, turned,
                       n - strip * VP_STRIP, k - block * 32);
        }
}

TARGET void vp_pack_a(const struct vp_strips *to, int64_t first,
                      const uint16_t *src, int64_t ld, bool transposed,
                      int64_t n, int64_t k)
{
    if (transposed)
        pack(to, first, src, ld, false, true, n, k);
    else
        pack(to, first, src, ld, true, false, n, k);
}

TARGET void vp_pack_b(const struct vp_strips *to, int64_t first,
                      const uint16_t *src, int64_t ld, bool transposed,
                      int64_t n, int64_t k)
{
    if (transposed)
        pack(to, first, src, ld, true, true, n, k);
    else
        pack(to, first, src, ld, false, false, n, k);
}

TARGET void vp_stream_rows(float *dst, int64_t dst_ld, const float *src,
                           int64_t src_ld, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++, dst += dst_ld, src += src_ld) {
        int64_t j = 0;

        while (j < cols && ((uintptr_t)(dst + j) & 63) != 0) {
            dst[j] = src[j];
            j++;
        }
        for (; j + 16 <= cols; j += 16)
            _mm512_stream_ps(dst + j, _mm512_loadu_ps(src + j));
        for (; j < cols; j++)
            dst[j] = src[j];
    }
    _mm_sfence(); /* other threads may read dst after this task */
}

#else
typedef int vp_gemm_pack_absent;
#endif
