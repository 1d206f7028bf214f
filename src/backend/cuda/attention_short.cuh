/* What the kernels of attention for short heads share: up to 128 queries and
 * keys, two tiles of each. A block is two warpgroups and takes heads in turns;
 * each group owns one of the tiles. */
#ifndef VP_BACKEND_CUDA_ATTENTION_SHORT_CUH
#define VP_BACKEND_CUDA_ATTENTION_SHORT_CUH

#include "backend/cuda/attention_wgmma.cuh"

enum {
    GROUPS = 2, /* of warps; and tiles of queries, and of keys */
    OWNERS = GROUPS * VP_WG_THREADS,
    MAX_LEN = GROUPS * 64,
};

static __device__ inline int group_index(void)
{
    return (int)threadIdx.x / VP_WG_THREADS;
}

/* The warp's first key, or query. */
static __device__ inline int first_row(void)
{
    return (int)threadIdx.x / 32 * 16;
}

/* Tiles of 64 rows, one or two. */
static __device__ inline int tiles_of(int len)
{
    return len > 64 ? 2 : 1;
}

static __host__ __device__ inline unsigned heads_of(
    const struct vp_attention_call &x)
{
    return (unsigned)(x.batch * x.heads);
}

#endif
