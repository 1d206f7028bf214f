/* The order in which a block of wgmma_b.cu does its work. The keys of a head
 * are cut into key tiles and its queries into tiles; VP_BAND_TILES tiles are a
 * band. The loops, from the outermost: heads, bands of a head, key tiles of a
 * band, tiles of queries. One pass of the innermost loop is a step. All warps
 * of the block follow this order, each at its own pace. */
#ifndef VP_BACKEND_CUDA_ATTENTION_KEY_TILES_H
#define VP_BACKEND_CUDA_ATTENTION_KEY_TILES_H

#include "backend/cuda/tiles.h"

#include <stdbool.h>

#if defined(__CUDACC__)
#define VP_KEY_TILES_INLINE static inline __host__ __device__
#else
#define VP_KEY_TILES_INLINE static inline
#endif

enum {
    VP_TILE_QUERIES = 64, /* queries per tile */
    VP_TILE_KEYS = 128,   /* keys per key tile */
    VP_TILES_PER_KEY_TILE = VP_TILE_KEYS / VP_TILE_QUERIES,
    VP_BAND_TILES = 8,
    VP_BAND_KEY_TILES = VP_BAND_TILES / VP_TILES_PER_KEY_TILE,
    VP_KEY_TILES_MAX_QUERIES = 2 * VP_BAND_TILES * VP_TILE_QUERIES,
    VP_KEY_TILES_MAX_KEYS = 4096, /* longest head */
    VP_KEY_TILE_GROUPS = 2,       /* warpgroups that own keys */
    VP_KEY_TILE_OWNERS = VP_KEY_TILE_GROUPS * VP_WG_THREADS,
    VP_KEY_TILE_PART = 16, /* quads (float4) of dk and dv per owner thread */
};

/* How the work of a call is cut. */
struct vp_key_tiles {
    unsigned n_heads; /* heads in the batch */
    bool causal;
    int n_tiles;     /* tiles of queries per head */
    int n_key_tiles; /* key tiles per head */
    int n_bands;
    int n_parts; /* key tiles whose dk and dv are stored between bands */
};

/* A key tile, and the band of queries that is combined with it. */
struct vp_key_tile {
    unsigned number; /* number of the head in the batch */
    int n_seen;      /* key tiles, up to the last with an unmasked key */
    int band, index;
    int odd; /* number of heads before this one, modulo 2 */
};

VP_KEY_TILES_INLINE int vp_key_tiles_min(int a, int b)
{
    return a < b ? a : b;
}

VP_KEY_TILES_INLINE struct vp_key_tiles vp_key_tiles_of(unsigned n_heads,
                                                        int q_len, int k_len,
                                                        bool causal)
{
    struct vp_key_tiles w;

    w.n_heads = n_heads;
    w.causal = causal;
    w.n_tiles = (q_len + VP_TILE_QUERIES - 1) / VP_TILE_QUERIES;
    w.n_key_tiles = (k_len + VP_TILE_KEYS - 1) / VP_TILE_KEYS;
    w.n_bands = (w.n_tiles + VP_BAND_TILES - 1) / VP_BAND_TILES;
    w.n_parts = w.n_bands > 1 ? w.n_key_tiles : 0;
    if (causal)
        w.n_parts = vp_key_tiles_min(w.n_parts,
                                     (w.n_bands - 1) * VP_BAND_KEY_TILES);
    return w;
}

/* First tile of queries in the band; with a causal mask, the first that may see
 * the keys. */
VP_KEY_TILES_INLINE int vp_key_tile_first_query_tile(
    const struct vp_key_tiles *w, const struct vp_key_tile *t)
{
    int band = t->band * VP_BAND_TILES, keys = t->index * VP_TILES_PER_KEY_TILE;

    return w->causal && keys > band ? keys : band;
}

VP_KEY_TILES_INLINE int vp_key_tile_end_query_tile(const struct vp_key_tiles *w,
                                                   const struct vp_key_tile *t)
{
    return vp_key_tiles_min((t->band + 1) * VP_BAND_TILES, w->n_tiles);
}

/* Number of key tiles that some query before tile `end` sees. */
VP_KEY_TILES_INLINE int vp_key_tiles_seen(const struct vp_key_tiles *w,
                                          const struct vp_key_tile *t, int end)
{
    int n = (end + VP_TILES_PER_KEY_TILE - 1) / VP_TILES_PER_KEY_TILE;

    return w->causal ? vp_key_tiles_min(t->n_seen, n) : t->n_seen;
}

/* Index at which lse and delta of a tile are stored. Heads of one band use two
 * places in turn, because those of the next head may be written while the last
 * tile of this head is read. */
VP_KEY_TILES_INLINE int vp_key_tile_stats(const struct vp_key_tiles *w,
                                          const struct vp_key_tile *t, int tile)
{
    int other = w->n_bands == 1 ? t->odd * VP_BAND_TILES : 0;

    return (other + tile) * VP_TILE_QUERIES;
}

/* Returns true if dk and dv of the keys already hold sums of an earlier
 * band. */
VP_KEY_TILES_INLINE bool vp_key_tile_has_part(const struct vp_key_tiles *w,
                                              const struct vp_key_tile *t)
{
    return t->band > (w->causal ? t->index / VP_BAND_KEY_TILES : 0);
}

VP_KEY_TILES_INLINE bool vp_key_tile_is_first_of_head(
    const struct vp_key_tile *t)
{
    return t->band == 0 && t->index == 0;
}

/* Moves to the next key tile of one of `n_blocks` blocks. Returns true if the
 * head is finished. */
VP_KEY_TILES_INLINE bool vp_key_tile_advance(const struct vp_key_tiles *w,
                                             struct vp_key_tile *t,
                                             unsigned n_blocks)
{
    if (++t->index < vp_key_tiles_seen(w, t, vp_key_tile_end_query_tile(w, t)))
        return false;
    t->index = 0;
    if (++t->band < w->n_bands)
        return false;
    t->band = 0;
    t->odd ^= 1;
    t->number += n_blocks;
    return true;
}

#endif
