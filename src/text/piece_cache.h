/* A cache of the ids of short pieces of text. Words repeat, so that most pieces
 * cost one lookup in one CPU cache line. */
#ifndef VP_TEXT_PIECE_CACHE_H
#define VP_TEXT_PIECE_CACHE_H

#include "text/ids.h"

#include <stdbool.h>
#include <string.h>

enum {
    VP_PIECE_BYTES = 32, /* longer pieces are not cached */
    VP_PIECE_IDS = 7,    /* pieces with more ids are not cached */
    VP_PIECE_SLOTS = 1 << 15,
};

/* The bytes of a piece as four words. Loads overlap if the length is not a
 * multiple of eight, so that nothing outside the piece is read. Words and
 * length together identify the piece. */
struct vp_piece_key {
    uint64_t words[4];
    uint32_t slot;
    uint8_t n_bytes;
};

struct vp_piece {
    uint64_t words[4];
    uint8_t n_bytes; /* 0: an empty slot */
    uint8_t n_ids;
    uint32_t ids[VP_PIECE_IDS];
};

struct vp_piece_cache {
    struct vp_piece *slots; /* VP_PIECE_SLOTS */
};

enum vp_status vp_piece_cache_init(struct vp_piece_cache *cache);
void vp_piece_cache_release(struct vp_piece_cache *cache);

/* Stores the ids of a piece, if there are at most VP_PIECE_IDS. May evict an
 * older piece. */
void vp_piece_cache_put(struct vp_piece_cache *cache,
                        const struct vp_piece_key *key, const uint32_t *ids,
                        size_t n_ids);

/* Packs the first 8 bytes at `at`, or all `n` >= 1 of them, into a word. */
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

/* Returns the key of a piece of `n` bytes, 1 to VP_PIECE_BYTES. */
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

/* Appends the ids of a cached piece. Returns false if the piece is not cached.
 * `ids` must have room for VP_PIECE_IDS more. */
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
