/* Blocks of BF16 products on AVX-512 with BF16: dot products of pairs. */
#include "backend/cpu/gemm_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define INLINE static inline __attribute__((always_inline)) TARGET

enum { ROWS = 8 }; /* of sums in registers, two vectors each */

static void nothing(void)
{
}

/* The pair that `p` points to, in all lanes. */
INLINE __m512bh pair(const uint16_t *p)
{
    int both;

    memcpy(&both, p, sizeof(both));
    return (__m512bh)_mm512_set1_epi32(both);
}

/* ROWS rows of c from as many rows of a tile of a. */
INLINE void rows_of(float *c, int64_t ldc, const uint16_t *a, const uint16_t *b,
                    int64_t n, bool add)
{
    __m512 left[ROWS], right[ROWS];

    for (int r = 0; r < ROWS; r++) {
        left[r] = add ? _mm512_loadu_ps(c + r * ldc) : _mm512_setzero_ps();
        right[r] = add ? _mm512_loadu_ps(c + r * ldc + 16)
                       : _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < n; i++) {
        for (int p = 0; p < 16; p++) {
            __m512bh b0 = (__m512bh)_mm512_loadu_si512(b + 32 * p);
            __m512bh b1 = (__m512bh)_mm512_loadu_si512(b + 512 + 32 * p);

            for (int r = 0; r < ROWS; r++) {
                __m512bh x = pair(a + 32 * r + 2 * p);

                left[r] = _mm512_dpbf16_ps(left[r], x, b0);
                right[r] = _mm512_dpbf16_ps(right[r], x, b1);
            }
        }
        a += VP_STRIP_BLOCK;
        b += VP_STRIP_BLOCK;
    }
    for (int r = 0; r < ROWS; r++) {
        _mm512_storeu_ps(c + r * ldc, left[r]);
        _mm512_storeu_ps(c + r * ldc + 16, right[r]);
    }
}

static TARGET void block(float *c, int64_t ldc, const uint16_t *a,
                         const uint16_t *b, int64_t n, bool add)
{
    for (int r = 0; r < VP_STRIP; r += ROWS)
        rows_of(c + r * ldc, ldc, a + 512 * (r / 16) + 32 * (r % 16), b, n,
                add);
}

const struct vp_gemm_bf16_kernels vp_gemm_avx512_bf16 = { nothing, nothing,
                                                          block };

#else
typedef int vp_gemm_avx512_absent;
#endif
