/* Matrix products on the rank's pool.
 *
 * A product is cut into tiles by its shape alone; each tile is one
 * single-threaded oneDNN call, so the result has the same bits for every
 * number of threads. */
#ifndef VP_BACKEND_CPU_GEMM_H
#define VP_BACKEND_CPU_GEMM_H

#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>

/* A row-major matrix whose rows are `ld` elements apart. */
struct vp_factor {
    const float *data;
    int64_t ld;
    bool transposed;
};

/* c [m, n] = alpha * a b + beta * c. a is [m, k], or [k, m] if transposed;
 * b is [k, n], or [n, k] if transposed. With beta 0, c is not read. */
struct vp_gemm {
    int64_t m, n, k;
    struct vp_factor a, b;
    float alpha, beta;
    float *c;
    int64_t ldc;
    /* Optional (NULL: nothing): called on each finished tile while it is in
     * cache, for rows [row, row + rows) and columns [col, col + cols) of c. */
    void (*finish)(void *ctx, int64_t row, int64_t rows, int64_t col,
                   int64_t cols);
    void *ctx;
};

void vp_cpu_gemm(struct vp_pool *pool, const struct vp_gemm *gemm);

/* The whole product on the calling thread, for use inside a task. */
void vp_cpu_gemm_here(const struct vp_gemm *gemm);

/* How a product is cut: tiles of tile_m x tile_n, smaller at the edges. */
struct vp_gemm_cut {
    int64_t tile_m, tile_n;
    int64_t rows, cols; /* of tiles */
};
struct vp_gemm_cut vp_gemm_cut(const struct vp_gemm *gemm);

#endif
