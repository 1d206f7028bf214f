/* The description of a matrix product that the functions of gemm.h take. */
#ifndef VP_BACKEND_CPU_PRODUCT_H
#define VP_BACKEND_CPU_PRODUCT_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* A row-major matrix whose rows are `ld` elements apart. */
struct vp_factor {
    const void *data;
    int64_t ld;
    bool transposed;
};

/* c [m, n] = alpha * a b + beta * c, in floats. a is [m, k], or [k, m] if
 * transposed; b is [k, n], or [n, k] if transposed. With beta 0, c is not
 * read. */
struct vp_gemm {
    enum vp_dtype dtype; /* type of a and b: F32 or BF16 */
    int64_t m, n, k;
    struct vp_factor a, b;
    float alpha, beta; /* BF16: alpha is 1, beta 0 or 1 */
    float *c;          /* BF16: may be NULL if only `finish` reads the result */
    int64_t ldc;
    /* Optional: called on each finished tile while it is in cache. The tile has
     * rows [row, row + rows) and columns [col, col + cols) of c; its rows are
     * `ld` floats apart, the first at `tile`. */
    void (*finish)(void *ctx, int64_t row, int64_t rows, int64_t col,
                   int64_t cols, const float *tile, int64_t ld);
    void *ctx;
    void *scratch; /* bytes: see the *_scratch() functions; NULL if 0 */
};

/* How a product is cut into tiles of tile_m x tile_n, smaller at the edges of
 * c. */
struct vp_gemm_cut {
    int64_t tile_m, tile_n;
    int64_t rows, cols; /* number of tiles in each direction */
};

#endif
