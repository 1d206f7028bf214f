/* What the kernels of attention for warpgroups share. */
#ifndef VP_BACKEND_CUDA_ATTENTION_WGMMA_CUH
#define VP_BACKEND_CUDA_ATTENTION_WGMMA_CUH

#include "backend/cuda/attention_mma.cuh"
#include "backend/cuda/wgmma.cuh"

/* Starts to copy rows [row, row + 64); 0 beyond the last. */
template <int N_THREADS, typename T>
static __device__ inline void copy_tile(vp_wg_tile<T> &dst,
                                        const vp_rows<const T> &src, int row,
                                        int thread)
{
    vp_wg_copy_tile<N_THREADS>(dst, src.data + row * src.ld, src.ld,
                               src.n - row, thread);
}

#endif
