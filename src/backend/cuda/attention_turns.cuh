/* The way of a block of attention_wgmma_b.cu through its work. A head's keys are
 * cut in turns and its queries in tiles, and so many tiles are a band. Heads are
 * taken one after another, their bands in order, the turns of a band in order,
 * and the tiles of a turn in order: that is a step. All warps of the block go
 * this way, each at its own pace. */
#ifndef VP_BACKEND_CUDA_ATTENTION_TURNS_CUH
#define VP_BACKEND_CUDA_ATTENTION_TURNS_CUH

#include "backend/cuda/attention_backward.cuh"

enum {
    GROUPS = 2, /* of warps that own keys */
    KEYS = GROUPS * GROUP_KEYS,
    OWNERS = GROUPS * VP_WG_THREADS,
    TURN_TILES = KEYS / QUERIES,
    BAND_TILES = 8,
    MAX_QUERIES = 2 * BAND_TILES * QUERIES,
    MAX_BLOCK_KEYS = 4096, /* of a head */
};

struct work {
    unsigned n_heads; /* of the batch */
    int n_tiles;      /* of queries */
    int n_turns;      /* of keys */
    int n_bands;
    int n_parts; /* turns whose dk and dv wait between bands */
};

/* The keys of a turn and the queries of a band. */
struct turn {
    unsigned number; /* of the head */
    struct vp_attention_head head;
    int n_seen; /* turns, before those whose keys are hidden from all */
    int band, index;
    int odd; /* heads before this one, modulo 2 */
};

static __host__ __device__ inline struct work work_of(
    const struct vp_attention_call &x)
{
    struct work w;

    w.n_heads = (unsigned)(x.batch * x.heads);
    w.n_tiles = (x.q_len + QUERIES - 1) / QUERIES;
    w.n_turns = (x.k_len + KEYS - 1) / KEYS;
    w.n_bands = (w.n_tiles + BAND_TILES - 1) / BAND_TILES;
    w.n_parts = w.n_bands > 1 ? w.n_turns : 0;
    if (x.causal && w.n_parts > (w.n_bands - 1) * (BAND_TILES / TURN_TILES))
        w.n_parts = (w.n_bands - 1) * (BAND_TILES / TURN_TILES);
    return w;
}

/* Queries before the turn's keys may not see them. */
static __device__ inline int first_tile(const struct vp_attention_call &x,
                                        const struct turn &t)
{
    int first = t.band * BAND_TILES;

    return x.causal ? max(first, t.index * TURN_TILES) : first;
}

static __device__ inline int end_tile(const struct work &w,
                                      const struct turn &t)
{
    return min((t.band + 1) * BAND_TILES, w.n_tiles);
}

/* Turns with keys that some query before tile `end` sees. */
static __device__ inline int turns_until(const struct vp_attention_call &x,
                                         const struct turn &t, int end)
{
    return x.causal ? min(t.n_seen, (end + TURN_TILES - 1) / TURN_TILES)
                    : t.n_seen;
}

/* Where lse and delta of a tile are. They may come for the next head while those
 * of this head's last tile are read, and that may be its only one. */
static __device__ inline int stats_of(const struct work &w,
                                      const struct turn &t, int tile)
{
    return ((w.n_bands == 1 ? t.odd * BAND_TILES : 0) + tile) * QUERIES;
}

static __device__ inline bool is_first_of_head(const struct turn &t)
{
    return t.band == 0 && t.index == 0;
}

static __device__ inline struct turn first_turn(
    const struct vp_attention_call &x)
{
    struct turn t = { blockIdx.x, vp_attention_head_of(x, blockIdx.x) };

    return t;
}

static __device__ inline struct turn next_turn(
    const struct vp_attention_call &x, const struct work &w, struct turn t)
{
    if (++t.index < turns_until(x, t, end_tile(w, t)))
        return t;
    t.index = 0;
    if (++t.band < w.n_bands)
        return t;
    t.band = 0;
    t.odd ^= 1;
    t.number += gridDim.x;
    t.head = vp_attention_head_of(x, t.number);
    return t;
}

/* Turns up to the last that has a key to be seen, or one. */
static __device__ inline int seen_turns(const struct vp_attention_call &x,
                                        const struct work &w,
                                        const struct turn &t)
{
    int i = w.n_turns * (KEYS / 32) - 1;

    while (i >= KEYS / 32 && !allowed_word(x, t.head, i))
        i--;
    return i / (KEYS / 32) + 1;
}

#endif
