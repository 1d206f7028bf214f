/* Shared by the attention kernels for warpgroups: copies of tiles, masks,
 * stores of fragments, launches. */
#ifndef VP_BACKEND_CUDA_ATTENTION_WGMMA_CUH
#define VP_BACKEND_CUDA_ATTENTION_WGMMA_CUH

#include "backend/cuda/attention/mma.cuh"
#include "backend/cuda/ptx/wgmma.cuh"

/* Starts to copy rows [row, row + 64) to a tile; 0 beyond the last row. */
template <int N_THREADS, typename T>
static __device__ inline void copy_tile(vp_wg_tile<T> &dst,
                                        const vp_rows<const T> &src, int row,
                                        int thread)
{
    vp_wg_copy_tile<N_THREADS>(dst, src.data + row * src.ld, src.ld,
                               src.n - row, thread);
}

/* Sets the scores of a tile to -infinity where a query may not see the key. */
static __device__ inline void hide_tile(float (&scores)[TILE / 8][4],
                                        const uint32_t *allowed, bool causal,
                                        int q0, int k0)
{
#pragma unroll
    for (int i = 0; i < TILE / 32; i++)
        hide(scores + 4 * i, allowed[k0 / 32 + i], causal, q0, k0 + 32 * i);
}

/* Stores fragments of a warp's 16 rows, rounded, to rows [row, row + 16) of a
 * tile. */
template <typename T>
static __device__ inline void put_rows(vp_wg_tile<T> &tile, int row,
                                       const uint32_t (&a)[4][4])
{
    int lane = (int)threadIdx.x % 32;

#pragma unroll
    for (int k = 0; k < 4; k++)
        vp_store_matrices(vp_wg_at(tile, row + lane % 16, 2 * k + lane / 16),
                          a[k]);
}

/* Sets a to rows g and g + 8 of c times factor[0] and factor[1], rounded. */
template <typename T>
static __device__ inline void round_scaled(uint32_t (&a)[4][4],
                                           const float (&c)[8][4],
                                           const float (&factor)[2])
{
    float scaled[8][4];

#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            scaled[n][i] = factor[i / 2] * c[n][i];
    round_rows<T>(a, scaled);
}

/* Number of blocks that take one head after another: `per_processor` for each
 * processor of the GPU, but no more than heads. */
static inline unsigned resident_blocks(unsigned n_heads, int per_processor)
{
    int device = 0, n = 1;

    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    n *= per_processor;
    return n_heads < (unsigned)n ? n_heads : (unsigned)n;
}

/* f<T, with dropout> */
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
