/* Sizes that kernels share with the rules for the size of their scratch memory
 * (backend/cuda_facts.h). Plain C without CUDA headers; also read by nvcc. */
#ifndef VP_BACKEND_CUDA_TILES_H
#define VP_BACKEND_CUDA_TILES_H

#include <stdbool.h>
#include <stdint.h>

/* Number of parts of size `part` that cover n elements. */
static inline int64_t vp_parts_of(int64_t n, int64_t part)
{
    return (n + part - 1) / part;
}

/* ---- Products ----------------------------------------------------------- */

enum { VP_CUDA_WORKSPACE = 32 << 20 }; /* scratch of a product, in bytes */

/* Rows of a tile of product/gelu_grad_wgmma.cu, and of a part of its column
 * sums. */
enum { VP_GELU_TILE_ROWS = 128 };

/* True if the result has enough tiles to make product/gelu_grad_wgmma.cu
 * worthwhile. */
static inline bool vp_fills_gelu_tiles(int64_t rows, int64_t cols)
{
    return rows >= 4096 && cols > 1024;
}

/* ---- Sums over rows ----------------------------------------------------- */

/* Teams of threads in a block: row r of the block's part belongs to team r %
 * VP_TEAMS. */
enum { VP_TEAMS = 4 };

/* Rows of a part, so that with 1024 columns per block there is one block for
 * each of the 132 processors of an H100 or H200. Depends on the shape only. */
static inline int64_t vp_part_rows(int64_t rows, int64_t cols)
{
    return vp_parts_of(rows * vp_parts_of(cols, 1024), 132 * VP_TEAMS) *
           VP_TEAMS;
}

static inline int64_t vp_row_parts(int64_t rows, int64_t cols)
{
    return vp_parts_of(rows, vp_part_rows(rows, cols));
}

/* Layer norm: a block works on whole rows, whatever the number of columns. */
static inline int64_t vp_norm_part_rows(int64_t rows)
{
    return vp_part_rows(rows, 1);
}

static inline int64_t vp_norm_parts(int64_t rows)
{
    return vp_row_parts(rows, 1);
}

/* ---- Embeddings --------------------------------------------------------- */

enum {
    VP_EMBED_PIECE = 32,       /* sorted rows that a block sums */
    VP_EMBED_TYPE_PARTS = 256, /* parts of rows for the table of types */
};

/* ---- Attention ---------------------------------------------------------- */

enum {
    VP_WG_THREADS = 128, /* threads of a warpgroup */
    VP_WG_DIM = 64,      /* elements of a row of a tile */
    VP_ATTENTION_MAX_KEYS = 32768,
    VP_ATTENTION_SHORT_LEN = 128, /* queries, keys of a short head */
    /* Rows of a part of the bias gradient of the linear that makes attention's
     * input. */
    VP_CUDA_TILE_ROWS = 64,
};

#endif
