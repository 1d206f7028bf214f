/* A hash table of CPU cache lines; each piece has two possible slots. */
#include "text/piece_cache.h"

#include <stdlib.h>

enum { LINE_BYTES = 64 };
_Static_assert(sizeof(struct vp_piece) == LINE_BYTES, "one cache line");

enum vp_status vp_piece_cache_init(struct vp_piece_cache *cache)
{
    size_t n_bytes = VP_PIECE_SLOTS * sizeof(*cache->slots);

    cache->slots = aligned_alloc(LINE_BYTES, n_bytes);
    if (!cache->slots)
        return VP_ERR_NOMEM;
    memset(cache->slots, 0, n_bytes);
    return VP_OK;
}

void vp_piece_cache_release(struct vp_piece_cache *cache)
{
    free(cache->slots);
    cache->slots = NULL;
}

void vp_piece_cache_put(struct vp_piece_cache *cache,
                        const struct vp_piece_key *key, const uint32_t *ids,
                        size_t n_ids)
{
    struct vp_piece *piece = &cache->slots[key->slot];

    if (n_ids > VP_PIECE_IDS)
        return;
    /* The old piece moves to its second slot, where it is still found. */
    if (piece->n_bytes != 0)
        cache->slots[key->slot ^ 1] = *piece;
    memcpy(piece->words, key->words, sizeof(piece->words));
    piece->n_bytes = key->n_bytes;
    piece->n_ids = (uint8_t)n_ids;
    memcpy(piece->ids, ids, n_ids * sizeof(*ids));
}
