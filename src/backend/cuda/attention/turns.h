/* The way of a block of wgmma_b.cu through its work. A head's keys are
 * cut in turns and its queries in tiles, and so many tiles are a band. Heads are
 * taken one after another, their bands in order, the turns of a band in order,
 * and the tiles of a turn in order: that is a step. All warps of the block go
 * this way, each at its own pace. */
#ifndef VP_BACKEND_CUDA_ATTENTION_TURNS_H
#define VP_BACKEND_CUDA_ATTENTION_TURNS_H

#include <stdbool.h>

#if defined(__CUDACC__)
#define VP_TURNS_INLINE static inline __host__ __device__
#else
#define VP_TURNS_INLINE static inline
#endif

enum {
    VP_TILE_QUERIES = 64,
    VP_TURN_KEYS = 128,
    VP_TURN_TILES = VP_TURN_KEYS / VP_TILE_QUERIES,
    VP_BAND_TILES = 8,
    VP_BAND_TURNS = VP_BAND_TILES / VP_TURN_TILES,
};

/* Of a call. */
struct vp_turns {
    unsigned n_heads; /* of the batch */
    bool causal;
    int n_tiles; /* of queries */
    int n_turns; /* of keys */
    int n_bands;
    int n_parts; /* turns whose dk and dv wait between bands */
};

/* The keys of a turn and the queries of a band. */
struct vp_turn {
    unsigned number; /* of the head */
    int n_seen;      /* turns, before those whose keys are hidden from all */
    int band, index;
    int odd; /* heads before this one, modulo 2 */
};

VP_TURNS_INLINE int vp_turns_least(int a, int b)
{
    return a < b ? a : b;
}

VP_TURNS_INLINE struct vp_turns vp_turns_of(unsigned n_heads, int q_len,
                                            int k_len, bool causal)
{
    struct vp_turns w;

    w.n_heads = n_heads;
    w.causal = causal;
    w.n_tiles = (q_len + VP_TILE_QUERIES - 1) / VP_TILE_QUERIES;
    w.n_turns = (k_len + VP_TURN_KEYS - 1) / VP_TURN_KEYS;
    w.n_bands = (w.n_tiles + VP_BAND_TILES - 1) / VP_BAND_TILES;
    w.n_parts = w.n_bands > 1 ? w.n_turns : 0;
    if (causal)
        w.n_parts = vp_turns_least(w.n_parts, (w.n_bands - 1) * VP_BAND_TURNS);
    return w;
}

/* Queries before the turn's keys may not see them. */
VP_TURNS_INLINE int vp_turn_first_tile(const struct vp_turns *w,
                                       const struct vp_turn *t)
{
    int band = t->band * VP_BAND_TILES, keys = t->index * VP_TURN_TILES;

    return w->causal && keys > band ? keys : band;
}

VP_TURNS_INLINE int vp_turn_end_tile(const struct vp_turns *w,
                                     const struct vp_turn *t)
{
    return vp_turns_least((t->band + 1) * VP_BAND_TILES, w->n_tiles);
}

/* Turns with keys that some query before tile `end` sees. */
VP_TURNS_INLINE int vp_turn_until(const struct vp_turns *w,
                                  const struct vp_turn *t, int end)
{
    int n = (end + VP_TURN_TILES - 1) / VP_TURN_TILES;

    return w->causal ? vp_turns_least(t->n_seen, n) : t->n_seen;
}

/* Where lse and delta of a tile are. They may come for the next head while those
 * of this head's last tile are read, and that may be its only one. */
VP_TURNS_INLINE int vp_turn_stats(const struct vp_turns *w,
                                  const struct vp_turn *t, int tile)
{
    int other = w->n_bands == 1 ? t->odd * VP_BAND_TILES : 0;

    return (other + tile) * VP_TILE_QUERIES;
}

/* Whether dk and dv of the turn's keys wait from the band before. */
VP_TURNS_INLINE bool vp_turn_has_part(const struct vp_turns *w,
                                      const struct vp_turn *t)
{
    return t->band > (w->causal ? t->index / VP_BAND_TURNS : 0);
}

VP_TURNS_INLINE bool vp_turn_is_first_of_head(const struct vp_turn *t)
{
    return t->band == 0 && t->index == 0;
}

/* For one of n_blocks. Returns whether a head has come to its end. */
VP_TURNS_INLINE bool vp_turn_advance(const struct vp_turns *w,
                                     struct vp_turn *t, unsigned n_blocks)
{
    if (++t->index < vp_turn_until(w, t, vp_turn_end_tile(w, t)))
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
