/* Matrix products of BF16 with sums in float.
 *
 * Operands are packed in strips: 32 rows of a, or 32 columns of b, with k
 * rounded up to a multiple of 32 and filled with zeros. A strip is a sequence
 * of blocks, one for each 32 values of k. A block has two tiles of 512
 * elements, for the first and the last 16 rows or columns of the strip:
 *   a  [16 rows][32 k]
 *   b  [16 pairs of k][16 columns][2 of a pair]
 * This is the memory layout of AMX tiles; the dot products of AVX-512 read the
 * same layout. Strips are cut into chunks of k, and all strips of a chunk
 * precede the next chunk. Each sum over k is added in ascending order of k,
 * whatever the cut. */
#ifndef VP_BACKEND_CPU_GEMM_BF16_H
#define VP_BACKEND_CPU_GEMM_BF16_H

#include "backend/cpu/product.h"
#include "base/pool.h"

#include <stddef.h>

enum { VP_STRIP = 32, VP_STRIP_BLOCK = 1024 };

/* Packed strips. `chunk` is the number of blocks of a chunk; the last one may be
 * shorter. */
struct vp_strips {
    uint16_t *data;
    int64_t n_strips, n_blocks, chunk;
};

/* Returns a block of a strip; those after it in its chunk are adjacent. */
static inline uint16_t *vp_strip_at(const struct vp_strips *strips,
                                    int64_t strip, int64_t block)
{
    int64_t begin = block - block % strips->chunk;
    int64_t left = strips->n_blocks - begin;
    int64_t n = left < strips->chunk ? left : strips->chunk;

    return strips->data +
           (begin * strips->n_strips + strip * n + block - begin) *
               VP_STRIP_BLOCK;
}

/* Packed data that later block() calls read, for prefetching. A count of 0
 * means that there is none. */
struct vp_gemm_ahead {
    const char *a, *b;
    int64_t a_lines, b_lines; /* number of cache lines of 64 bytes */
};

struct vp_gemm_bf16_kernels {
    /* Most blocks of a strip in a chunk, which is multiplied before the next
     * strips are taken. Affects speed but no bits: the sums continue in
     * float. */
    int k_blocks;
    /* Called before and after a sequence of block() calls of one thread. */
    void (*begin)(void);
    void (*end)(void);
    /* c [32, 32] = strip of a times strip of b over n blocks; c is added if
     * `add`. May prefetch `ahead` into the level-2 cache. */
    void (*block)(float *c, int64_t ldc, const uint16_t *a, const uint16_t *b,
                  int64_t n, bool add, const struct vp_gemm_ahead *ahead);
};

/* Pack `n` rows of a, or `n` columns of b, of `k` elements each into the strips
 * from `first` on. Rows of `src` are `ld` elements apart. For a, `src` is [n,
 * k], or [k, n] if transposed; for b, it is [k, n], or [n, k] if transposed.
 * Both need AVX-512. */
void vp_pack_a(const struct vp_strips *to, int64_t first, const uint16_t *src,
               int64_t ld, bool transposed, int64_t n, int64_t k);
void vp_pack_b(const struct vp_strips *to, int64_t first, const uint16_t *src,
               int64_t ld, bool transposed, int64_t n, int64_t k);

/* Copies a matrix of floats to memory past the caches: dst is neither read into
 * them nor left there. Needs AVX-512. */
void vp_stream_rows(float *dst, int64_t dst_ld, const float *src,
                    int64_t src_ld, int64_t rows, int64_t cols);

extern const struct vp_gemm_bf16_kernels vp_gemm_avx512_bf16;
extern const struct vp_gemm_bf16_kernels vp_gemm_amx_bf16;

/* Returns the rate of vp_gemm_avx512_bf16 divided by the peak rate of float
 * multiply-adds on this core. Timing takes less than a millisecond. The
 * processor must have AVX512_BF16. */
double vp_gemm_avx512_bf16_gain(void);

/* The functions of gemm.h, for BF16. */
void vp_cpu_gemm_bf16(struct vp_pool *pool, const struct vp_gemm *gemm);
size_t vp_cpu_gemm_bf16_scratch(const struct vp_gemm *gemm, int n_threads);
void vp_cpu_gemm_bf16_here(const struct vp_gemm *gemm);
size_t vp_cpu_gemm_bf16_here_scratch(int64_t m, int64_t n, int64_t k);
struct vp_gemm_cut vp_gemm_bf16_cut(const struct vp_gemm *gemm);

#endif
