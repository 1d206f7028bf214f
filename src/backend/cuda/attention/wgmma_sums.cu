/* Bias gradient of a linear whose output is the input of attention, if backward
 * of the attention has not computed it. */
#include "backend/cuda/attention/sums.cuh"
#include "backend/cuda/cuda.h"

/* One block for 64 columns of a part. */
template <typename T>
static __global__ void __launch_bounds__(VP_WG_THREADS)
    tile_sums(float *parts, const T *x, int64_t cols)
{
    __shared__ vp_wg_tile<T> tile;
    int64_t col = (int64_t)blockIdx.x * VP_WG_DIM;

    x += blockIdx.y * VP_CUDA_TILE_ROWS * cols + col;
    vp_wg_copy_tile<VP_WG_THREADS>(tile, x, cols, VP_CUDA_TILE_ROWS,
                                   (int)threadIdx.x);
    vp_copy_commit();
    vp_copy_wait<0>();
    __syncthreads();
    sum_tile(parts + blockIdx.y * cols + col, tile);
}

template <typename T>
static void launch(float *parts, const void *x, int64_t rows, int64_t cols,
                   cudaStream_t stream)
{
    dim3 grid((unsigned)(cols / VP_WG_DIM),
              (unsigned)(rows / VP_CUDA_TILE_ROWS));

    tile_sums<T><<<grid, VP_WG_THREADS, 0, stream>>>(parts, (const T *)x, cols);
}

void vp_cuda_tile_sums(float *dst, const void *x, int64_t rows, int64_t cols,
                       enum vp_dtype dtype, bool add, void *scratch,
                       cudaStream_t stream)
{
    float *parts = (float *)scratch;

    if (dtype == VP_DTYPE_F16)
        launch<__half>(parts, x, rows, cols, stream);
    else
        launch<__nv_bfloat16>(parts, x, rows, cols, stream);
    vp_cuda_parts_finish(dst, parts, rows / VP_CUDA_TILE_ROWS, cols, add,
                         stream);
}
