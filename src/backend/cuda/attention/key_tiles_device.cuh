/* Key tiles (key_tiles.h) for the threads of a block: together with their
 * head. */
#ifndef VP_BACKEND_CUDA_ATTENTION_KEY_TILES_DEVICE_CUH
#define VP_BACKEND_CUDA_ATTENTION_KEY_TILES_DEVICE_CUH

#include "backend/cuda/attention/backward.cuh"
#include "backend/cuda/attention/key_tiles.h"

enum {
    GROUPS = VP_KEY_TILE_GROUPS,
    KEYS = GROUPS * GROUP_KEYS,
    OWNERS = VP_KEY_TILE_OWNERS,
    MAX_QUERIES = VP_KEY_TILES_MAX_QUERIES,
};

static_assert((int)KEYS == (int)VP_TILE_KEYS &&
                  (int)QUERIES == (int)VP_TILE_QUERIES,
              "tiles are those of key_tiles.h");

struct key_tile : vp_key_tile {
    struct vp_attention_head head;
};

static __host__ __device__ inline struct vp_key_tiles key_tiles_of(
    const struct vp_attention_call &x)
{
    return vp_key_tiles_of((unsigned)(x.batch * x.heads), x.q_len, x.k_len,
                           x.causal);
}

static __device__ inline struct key_tile first_key_tile(
    const struct vp_attention_call &x)
{
    struct key_tile t = { { blockIdx.x, 0, 0, 0, 0 },
                          vp_attention_head_of(x, blockIdx.x) };

    return t;
}

static __device__ inline struct key_tile next_key_tile(
    const struct vp_attention_call &x, const struct vp_key_tiles &w,
    struct key_tile t)
{
    if (vp_key_tile_advance(&w, &t, gridDim.x))
        t.head = vp_attention_head_of(x, t.number);
    return t;
}

/* Number of key tiles, up to the last with an unmasked key; at least one. */
static __device__ inline int seen_key_tiles(const struct vp_attention_call &x,
                                            const struct vp_key_tiles &w,
                                            const struct key_tile &t)
{
    int i = w.n_key_tiles * (KEYS / 32) - 1;

    while (i >= KEYS / 32 && !allowed_word(x, t.head, i))
        i--;
    return i / (KEYS / 32) + 1;
}

#endif
