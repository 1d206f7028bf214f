/* The BF16 product kernel for AVX-512 with BF16 (dot products of pairs), and a
 * measurement of its speed. */
#include "backend/cpu/gemm_bf16.h"

#if defined(__x86_64__)

#include "base/clock.h"

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define INLINE static inline __attribute__((always_inline)) TARGET

enum { ROWS = 8 }; /* rows of c whose sums are in registers, two vectors each */

static void nothing(void)
{
}

/* Returns a vector with the pair at `p` in all lanes. */
INLINE __m512bh pair(const uint16_t *p)
{
    int both;

    memcpy(&both, p, sizeof(both));
    return (__m512bh)_mm512_set1_epi32(both);
}

INLINE void prefetch(const char *p, int64_t lines)
{
    for (int64_t i = 0; i < lines; i++)
        _mm_prefetch(p + 64 * i, _MM_HINT_T1);
}

/* Computes ROWS rows of c from ROWS rows of a tile of a. Prefetches the lines
 * of `ahead` for each block. */
INLINE void rows_of(float *c, int64_t ldc, const uint16_t *a, const uint16_t *b,
                    int64_t n, bool add, struct vp_gemm_ahead ahead)
{
    __m512 left[ROWS], right[ROWS];

    for (int r = 0; r < ROWS; r++) {
        left[r] = add ? _mm512_loadu_ps(c + r * ldc) : _mm512_setzero_ps();
        right[r] = add ? _mm512_loadu_ps(c + r * ldc + 16)
                       : _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < n; i++) {
        prefetch(ahead.a + 64 * ahead.a_lines * i, ahead.a_lines);
        prefetch(ahead.b + 64 * ahead.b_lines * i, ahead.b_lines);
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

/* Distributes the lines of `ahead` evenly over the loop: each is fetched while
 * the core multiplies. Without it, operands from the level-3 cache or from
 * memory cost 5 to 15 % of the speed. */
static TARGET void block(float *c, int64_t ldc, const uint16_t *a,
                         const uint16_t *b, int64_t n, bool add,
                         const struct vp_gemm_ahead *ahead)
{
    int64_t times = VP_STRIP / ROWS * n;
    struct vp_gemm_ahead share = { ahead->a, ahead->b,
                                   (ahead->a_lines + times - 1) / times,
                                   (ahead->b_lines + times - 1) / times };

    for (int r = 0; r < VP_STRIP; r += ROWS) {
        rows_of(c + r * ldc, ldc, a + 512 * (r / 16) + 32 * (r % 16), b, n, add,
                share);
        share.a += 64 * share.a_lines * n;
        share.b += 64 * share.b_lines * n;
    }
}

/* 32 KiB of a strip of b, which stay in a level-1 cache. */
enum { K_BLOCKS = 16 };

const struct vp_gemm_bf16_kernels vp_gemm_avx512_bf16 = { K_BLOCKS, nothing,
                                                          nothing, block };

/* ---- Measuring speed ---------------------------------------------------- */

enum {
    TIMED_BLOCKS = 16, /* blocks of a strip */
    TIMED_FLOPS = 2 * VP_STRIP * VP_STRIP * 32 * TIMED_BLOCKS,
    CHAINS = 16, /* independent sums, which hide the latency of an addition */
    ROUNDS = 12, /* the fastest one counts: other processes may use the core */
};

/* Does TIMED_FLOPS operations on floats in registers. Returns a sum, so that
 * the compiler cannot remove the work. */
static TARGET float multiply_floats(float x)
{
    __m512 sums[CHAINS], factor = _mm512_set1_ps(x), total;

    for (int i = 0; i < CHAINS; i++)
        sums[i] = _mm512_set1_ps((float)i);
    for (int n = 0; n < TIMED_FLOPS / (2 * 16 * CHAINS); n++)
        for (int i = 0; i < CHAINS; i++)
            sums[i] = _mm512_fmadd_ps(sums[i], factor, factor);
    total = sums[0];
    for (int i = 1; i < CHAINS; i++)
        total = _mm512_add_ps(total, sums[i]);
    return _mm512_cvtss_f32(total);
}

double vp_gemm_avx512_bf16_gain(void)
{
    static const uint16_t strip[TIMED_BLOCKS * VP_STRIP_BLOCK]; /* zeros */
    int64_t floats = INT64_MAX, halves = INT64_MAX;
    float c[VP_STRIP * VP_STRIP] = { 0 };
    struct vp_gemm_ahead none = { 0 };
    volatile float x = 0.5f;

    for (int i = 0; i < ROUNDS; i++) {
        int64_t begin = vp_clock_ns(), middle, end;

        x = multiply_floats(x) > 0.0f ? 0.5f : 0.25f;
        middle = vp_clock_ns();
        block(c, VP_STRIP, strip, strip, TIMED_BLOCKS, true, &none);
        end = vp_clock_ns();
        x += c[0];
        floats = middle - begin < floats ? middle - begin : floats;
        halves = end - middle < halves ? end - middle : halves;
    }
    return (double)floats / (double)(halves > 0 ? halves : 1);
}

#else
typedef int vp_gemm_avx512_absent;
#endif
