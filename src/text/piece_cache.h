/* Ids of short pieces of text that were encoded before. Text repeats its words,
 * so that most pieces cost one look at one cache line. */
#ifndef VP_TEXT_PIECE_CACHE_H
#define VP_TEXT_PIECE_CACHE_H

#include "text/ids.h"

#include <stdbool.h>
#include <string.h>

enum {
    VP_PIECE_BYTES = 32, /* longer pieces are not kept */
    VP_PIECE_IDS = 7,    /* nor are those of more ids */
    VP_PIECE_SLOTS = 1 << 15,
};

/* A piece as four words. Loads overlap where the piece is no multiple of eight
 * bytes, so that nothing outside of it is read; words and length together say
 * what the piece is. */
struct vp_piece_key {
    uint64_t words[4];
    uint32_t slot;
    uint8_t n_bytes;
};

struct vp_piece {
    uint64_t words[4];
    uint8_t n_bytes; /* 0: nothing here */
    uint8_t n_ids;
    uint32_t ids[VP_PIECE_IDS];
};

struct vp_piece_cache {
    struct vp_piece *slots; /* VP_PIECE_SLOTS */
};

enum vp_status vp_piece_cache_init(struct vp_piece_cache *cache);
void vp_piece_cache_release(struct vp_piece_cache *cache);

/* Keeps the ids of a piece. A newer one takes the place of an older one. */
void vp_piece_cache_put(struct vp_piece_cache *cache,
                        const struct vp_piece_key *key, const uint32_t *ids,
                        size_t n_ids);

static inline uint64_t vp_piece_load(const unsigned char *at, size_t n)
{
    uint64_t word = 0;
    uint32_t low, high;

    if (n >= 8) {
        memcpy(&word, at, 8);
    } else if (n >= 4) {
        memcpy(&low, at, 4);
        memcpy(&high, at + n - 4, 4);
        word = low | (uint64_t)high << 32;
    } else {
        word = at[0] | (uint64_t)at[n / 2] << 8 | (uint64_t)at[n - 1] << 16;
    }
    return word;
}

/* `n` is from 1 to VP_PIECE_BYTES. */
static inline struct vp_piece_key vp_piece_key_of(const unsigned char *at,
                                                  size_t n)
{
    struct vp_piece_key key = { .n_bytes = (uint8_t)n };
    uint64_t hash;

    key.words[0] = vp_piece_load(at, n);
    if (n > 8)
        key.words[1] = vp_piece_load(at + n - 8, 8);
    if (n > 16) {
        key.words[2] = vp_piece_load(at + 8, 8);
        key.words[3] = vp_piece_load(at + n - 16, 8);
    }
    hash = (key.words[0] ^ n) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32 ^ key.words[1]) * UINT64_C(0xD6E8FEB86659FD93);
    if (n > 16) {
        hash = (hash ^ hash >> 32 ^ key.words[2]) *
               UINT64_C(0x9E3779B97F4A7C15);
        hash = (hash ^ hash >> 32 ^ key.words[3]) *
               UINT64_C(0xD6E8FEB86659FD93);
    }
    key.slot = (uint32_t)(hash >> 40) & (VP_PIECE_SLOTS - 1);
    return key;
}

static inline bool vp_piece_is(const struct vp_piece *piece,
                               const struct vp_piece_key *key)
{
    return piece->n_bytes == key->n_bytes &&
           ((piece->words[0] ^ key->words[0]) |
            (piece->words[1] ^ key->words[1]) |
            (piece->words[2] ^ key->words[2]) |
            (piece->words[3] ^ key->words[3])) == 0;
}

/* Appends the ids of a piece that is kept; false if it is not. `ids` must have
 * room for VP_PIECE_IDS. */
static inline bool vp_piece_cache_get(const struct vp_piece_cache *cache,
                                      const struct vp_piece_key *key,
                                      struct vp_ids *ids)
{
    const struct vp_piece *piece = &cache->slots[key->slot];

    if (!vp_piece_is(piece, key)) {
        piece = &cache->slots[key->slot ^ 1];
        if (!vp_piece_is(piece, key))
            return false;
    }
    memcpy(ids->at + ids->n, piece->ids, sizeof(piece->ids));
    ids->n += piece->n_ids;
    return true;
}

#endif
