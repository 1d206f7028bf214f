/* Matrix products on the rank's pool.
 *
 * A product is cut into tiles by its shape alone, and each tile is made by one
 * thread, so the result has the same bits for every number of threads. Products of
 * floats use oneDNN; those of BF16 are in gemm_bf16.c. */
#ifndef VP_BACKEND_CPU_GEMM_H
#define VP_BACKEND_CPU_GEMM_H

#include "backend/cpu/product.h"
#include "base/pool.h"

#include <stddef.h>

/* Computes the product on the threads of `pool`. */
void vp_cpu_gemm(struct vp_pool *pool, const struct vp_gemm *gemm);
/* Returns the bytes of scratch that vp_cpu_gemm() needs with n_threads. Reads
 * the shape, and whether `c` is NULL. */
size_t vp_cpu_gemm_scratch(const struct vp_gemm *gemm, int n_threads);

/* Computes the whole product on the calling thread, for use inside a pool task.
 * `c` must not be NULL, and `finish` is not called. */
void vp_cpu_gemm_here(const struct vp_gemm *gemm);
size_t vp_cpu_gemm_here_scratch(enum vp_dtype dtype, int64_t m, int64_t n,
                                int64_t k);

/* Returns how a product of floats is cut. */
struct vp_gemm_cut vp_gemm_cut(const struct vp_gemm *gemm);

#endif
