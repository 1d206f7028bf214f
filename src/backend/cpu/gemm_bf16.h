/* Products of BF16 with sums in float.
 *
 * Operands are packed in strips: 32 rows of a, or 32 columns of b, with k rounded
 * up to a multiple of 32 and zeros behind the edges. A strip is a sequence of
 * blocks of 32 k, each of two tiles of 512 elements, for its first and its last 16
 * rows or columns:
 *   a  [16 rows][32 k]
 *   b  [16 pairs of k][16 columns][2 of a pair]
 * This is how the tiles of AMX lie in memory; the dot products of AVX-512 read the
 * same. Each sum over k runs in order from first to last, whatever the cut. */
#ifndef VP_BACKEND_CPU_GEMM_BF16_H
#define VP_BACKEND_CPU_GEMM_BF16_H

#include "backend/cpu/product.h"
#include "base/pool.h"

#include <stddef.h>

enum { VP_STRIP = 32, VP_STRIP_BLOCK = 1024 };

struct vp_gemm_bf16_kernels {
    /* Blocks of k that are multiplied before the next strips are taken. Changes
     * speed, not bits: sums go on in float. */
    int k_blocks;
    /* Around a sequence of block() calls of one thread. */
    void (*begin)(void);
    void (*end)(void);
    /* c [32, 32] (+)= strip of a times strip of b over n blocks of k. */
    void (*block)(float *c, int64_t ldc, const uint16_t *a, const uint16_t *b,
                  int64_t n, bool add);
};

/* Packs the strips of `n` rows of a, or `n` columns of b, with `k` elements each.
 * Rows of `src` are `ld` elements apart; they are those of a (transposed: of k), or
 * of k (transposed: of columns). Need AVX-512. */
void vp_pack_a(uint16_t *dst, const uint16_t *src, int64_t ld, bool transposed,
               int64_t n, int64_t k);
void vp_pack_b(uint16_t *dst, const uint16_t *src, int64_t ld, bool transposed,
               int64_t n, int64_t k);

extern const struct vp_gemm_bf16_kernels vp_gemm_avx512_bf16;
extern const struct vp_gemm_bf16_kernels vp_gemm_amx_bf16;

/* The rate of vp_gemm_avx512_bf16 over the peak rate of float multiply-adds on
 * this core, timed in less than a millisecond. The processor must have
 * AVX512_BF16. */
double vp_gemm_avx512_bf16_gain(void);

/* What gemm.h says, for BF16. */
void vp_cpu_gemm_bf16(struct vp_pool *pool, const struct vp_gemm *gemm);
size_t vp_cpu_gemm_bf16_scratch(const struct vp_gemm *gemm, int n_threads);
void vp_cpu_gemm_bf16_here(const struct vp_gemm *gemm);
size_t vp_cpu_gemm_bf16_here_scratch(int64_t m, int64_t n, int64_t k);
struct vp_gemm_cut vp_gemm_bf16_cut(const struct vp_gemm *gemm);

#endif
