/* Sizes that kernels share with the rules for their temporaries
 * (backend/cuda_facts.h). Plain C, without CUDA headers; also read by nvcc. */
#ifndef VP_BACKEND_CUDA_TILES_H
#define VP_BACKEND_CUDA_TILES_H

#include <stdbool.h>
#include <stdint.h>

static inline int64_t vp_parts_of(int64_t n, int64_t part)
{
    return (n + part - 1) / part;
}

/* ---- Products ----------------------------------------------------------- */

enum { VP_CUDA_WORKSPACE = 32 << 20 }; /* bytes */

/* Rows of a tile; sums of columns are in parts of as many. */
enum { VP_GELU_TILE_ROWS = 128 };

/* Whether a result has tiles enough for the kernel to be worth it. */
static inline bool vp_fills_gelu_tiles(int64_t rows, int64_t cols)
{
    return rows >= 4096 && cols > 1024;
}

/* ---- Sums over rows ----------------------------------------------------- */

/* Teams of a block: row r of its part belongs to team r % VP_TEAMS. */
enum { VP_TEAMS = 4 };

/* A block for each processor of the devices this is made for, where a block
 * has 1024 columns. Depends on the shape only. */
static inline int64_t vp_part_rows(int64_t rows, int64_t cols)
{
    return vp_parts_of(rows * vp_parts_of(cols, 1024), 132 * VP_TEAMS) *
           VP_TEAMS;
}

static inline int64_t vp_row_parts(int64_t rows, int64_t cols)
{
    return vp_parts_of(rows, vp_part_rows(rows, cols));
}

/* Layer norm: a block has whole rows, for any number of columns. */
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
    VP_EMBED_TYPE_PARTS = 256, /* of the rows, for the table of types */
};

/* ---- Attention ---------------------------------------------------------- */

enum {
    VP_WG_THREADS = 128, /* of a warpgroup */
    VP_WG_DIM = 64,      /* elements of a row of a tile */
    VP_ATTENTION_MAX_KEYS = 32768,
    VP_ATTENTION_SHORT_LEN = 128, /* at most: the kernels for short heads */
    /* Rows of a part of the sums for the bias of a linear that attention
     * reads. */
    VP_CUDA_TILE_ROWS = 64,
};

#endif
