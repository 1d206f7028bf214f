/* Sums over the rows of dq, dk and dv, for the bias gradient of the linear
 * before attention: in parts of 64 rows, on the tensor cores. Backward computes
 * them while the rows are in shared memory. Where they are computed later,
 * wgmma_sums.cu reads the rows again and gets the same bits. */
#ifndef VP_BACKEND_CUDA_ATTENTION_SUMS_CUH
#define VP_BACKEND_CUDA_ATTENTION_SUMS_CUH

#include "backend/cuda/ptx/wgmma.cuh"

enum grad { DQ, DK, DV, GRADS };

/* dst[0 .. 63] = the sums of a tile's columns, of which each warp of a group
 * computes 16. Every row of the product of a matrix of ones and the tile is
 * that sum. */
template <typename T>
static __device__ inline void sum_tile(float *dst, vp_wg_tile<T> &tile)
{
    int lane = (int)threadIdx.x % 32;
    int warp = (int)threadIdx.x % VP_WG_THREADS / 32;
    uint32_t two = vp_pack<T>(1.0f, 1.0f), ones[4] = { two, two, two, two };
    float sum[2][4] = {};

#pragma unroll
    for (int row = 0; row < 64; row += 16) {
        uint32_t b[4]; /* two B: eight columns each */

        vp_load_matrices_trans(
            b, vp_wg_at(tile, row + lane % 16, 2 * warp + lane / 16));
        vp_mma<T>(sum[0], ones, b);
        vp_mma<T>(sum[1], ones, b + 2);
    }
    if (lane < 8)
        *(float2 *)&dst[16 * warp + 2 * lane] = lane < 4
                                                    ? make_float2(sum[0][0],
                                                                  sum[0][1])
                                                    : make_float2(sum[1][0],
                                                                  sum[1][1]);
}

#endif
