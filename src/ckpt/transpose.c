/* Transposition of a matrix in tiles. */
#include "ckpt/transpose.h"

/* Elements on a side of a tile: a cache line, so that each is fetched once. */
enum { TILE = 16 };

static int64_t tile_end(int64_t begin, int64_t n)
{
    return n - begin < TILE ? n : begin + TILE;
}

static void transpose_tile(float *out, const float *in, int64_t rows,
                           int64_t cols, int64_t row, int64_t col)
{
    int64_t row_end = tile_end(row, rows), col_end = tile_end(col, cols);

    for (int64_t c = col; c < col_end; c++)
        for (int64_t r = row; r < row_end; r++)
            out[c * rows + r] = in[r * cols + c];
}

void vp_transpose(float *out, const float *in, int64_t rows, int64_t cols)
{
    for (int64_t row = 0; row < rows; row += TILE)
        for (int64_t col = 0; col < cols; col += TILE)
            transpose_tile(out, in, rows, cols, row, col);
}
