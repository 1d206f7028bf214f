/* Turns of a block as its threads know them: with the head at hand. */
#ifndef VP_BACKEND_CUDA_ATTENTION_TURNS_CUH
#define VP_BACKEND_CUDA_ATTENTION_TURNS_CUH

#include "backend/cuda/attention/backward.cuh"
#include "backend/cuda/attention/turns.h"

enum {
    GROUPS = 2, /* of warps that own keys */
    KEYS = GROUPS * GROUP_KEYS,
    OWNERS = GROUPS * VP_WG_THREADS,
    MAX_QUERIES = 2 * VP_BAND_TILES * QUERIES,
    MAX_BLOCK_KEYS = 4096, /* of a head */
};

static_assert((int)KEYS == (int)VP_TURN_KEYS &&
                  (int)QUERIES == (int)VP_TILE_QUERIES,
              "turns and tiles are those of turns.h");

struct turn : vp_turn {
    struct vp_attention_head head;
};

static __host__ __device__ inline struct vp_turns turns_of(
    const struct vp_attention_call &x)
{
    return vp_turns_of((unsigned)(x.batch * x.heads), x.q_len, x.k_len,
                       x.causal);
}

static __device__ inline struct turn first_turn(
    const struct vp_attention_call &x)
{
    struct turn t = { { blockIdx.x, 0, 0, 0, 0 },
                      vp_attention_head_of(x, blockIdx.x) };

    return t;
}

static __device__ inline struct turn next_turn(
    const struct vp_attention_call &x, const struct vp_turns &w, struct turn t)
{
    if (vp_turn_advance(&w, &t, gridDim.x))
        t.head = vp_attention_head_of(x, t.number);
    return t;
}

/* Turns up to the last that has a key to be seen, or one. */
static __device__ inline int seen_turns(const struct vp_attention_call &x,
                                        const struct vp_turns &w,
                                        const struct turn &t)
{
    int i = w.n_turns * (KEYS / 32) - 1;

    while (i >= KEYS / 32 && !allowed_word(x, t.head, i))
        i--;
    return i / (KEYS / 32) + 1;
}

#endif
