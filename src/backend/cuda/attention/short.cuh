/* Shared by the attention kernels for short heads: up to 128 queries and keys,
 * two tiles of each. A block is two warpgroups and processes one head after
 * another; each group owns one of the tiles. The TMA (ptx/tma.cuh) copies
 * inputs and results, which takes no time of the threads. */
#ifndef VP_BACKEND_CUDA_ATTENTION_SHORT_CUH
#define VP_BACKEND_CUDA_ATTENTION_SHORT_CUH

#include "backend/cuda/attention/wgmma.cuh"
#include "backend/cuda/ptx/tma.cuh"
#include "backend/cuda/ptx/tma_map.cuh"

enum {
    GROUPS = 2, /* warpgroups; tiles of queries; tiles of keys */
    OWNERS = GROUPS * VP_WG_THREADS,
    MAX_LEN = GROUPS * 64,
};

static_assert((int)MAX_LEN == (int)VP_ATTENTION_SHORT_LEN,
              "heads are as short as tiles.h says");

static __device__ inline int group_index(void)
{
    return (int)threadIdx.x / VP_WG_THREADS;
}

/* The warp's first key or query. */
static __device__ inline int first_row(void)
{
    return (int)threadIdx.x / 32 * 16;
}

/* Number of tiles of 64 rows, one or two. */
static __device__ inline int tiles_of(int len)
{
    return len > 64 ? 2 : 1;
}

static __host__ __device__ inline unsigned heads_of(
    const struct vp_attention_call &x)
{
    return (unsigned)(x.batch * x.heads);
}

/* Barrier of the threads of a warpgroup. */
static __device__ inline void sync_group(void)
{
    asm volatile("bar.sync %0, %1;"
                 :
                 : "r"(1 + group_index()), "n"((int)VP_WG_THREADS)
                 : "memory");
}

/* Starts to copy the group's 64 rows of a result to device memory, by one
 * thread of the group. The tile may be overwritten after vp_tma_wait_read(). */
template <typename T>
static __device__ void send_tile(const CUtensorMap *map,
                                 const vp_wg_tile<T> &tile,
                                 const struct vp_attention_head &h)
{
    vp_tma_store_matrix(map, h.index * VP_WG_DIM, 64 * group_index(),
                        (int)h.sample, &tile);
    vp_tma_commit();
}

/* ---- For launches ------------------------------------------------------- */

/* Map of a tensor laid out like q or k, with `len` rows in each sample. A
 * sample is one matrix of the map. */
static inline CUtensorMap map_of(const struct vp_attention_call *x,
                                 const void *data, int len, int64_t ld,
                                 int box_rows)
{
    const struct vp_tma_tensor tensor = {
        x->dtype, data,     (int64_t)x->heads * VP_WG_DIM,   len, x->batch,
        ld,       box_rows, CU_TENSOR_MAP_L2_PROMOTION_NONE,
    };

    return vp_tma_map(&tensor);
}

/* Map with boxes of whole heads, for loads. */
static inline CUtensorMap heads_map(const struct vp_attention_call *x,
                                    const void *data, int len, int64_t ld)
{
    return map_of(x, data, len, ld, len > 64 ? 128 : 64);
}

/* Map with boxes of one tile, for send_tile(). */
static inline CUtensorMap tiles_map(const struct vp_attention_call *x,
                                    const void *data, int len, int64_t ld)
{
    return map_of(x, data, len, ld, 64);
}

#endif
