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

/* f<T, dropout or not> */
#define WG_LAUNCHES(f)                                       \
    {                                                        \
        { f<__nv_bfloat16, false>, f<__nv_bfloat16, true> }, \
            { f<__half, false>, f<__half, true> },           \
    }

static inline launch_fn wg_launch_of(const launch_fn (&table)[2][2],
                                     const struct vp_attention_call *x)
{
    return table[x->dtype == VP_DTYPE_F16][x->drop.threshold != 0];
}

#endif
