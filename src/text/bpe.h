/* Byte-level BPE: starts with the bytes of a piece and merges neighbouring
 * symbols, the pair of the lowest rank first, until no pair has a rank. */
#ifndef VP_TEXT_BPE_H
#define VP_TEXT_BPE_H

#include "text/ids.h"
#include "text/vocabulary.h"

#define VP_BPE_NO_PAIR UINT64_MAX /* differs from every pair of ids */

struct vp_bpe_merge {
    uint64_t pair; /* left id << 32 | right id; VP_BPE_NO_PAIR: an empty slot */
    uint32_t rank;
    uint32_t id;
};

/* Merges and tokens of single bytes. vp_bpe_init() initialises it. */
struct vp_bpe {
    struct vp_bpe_merge *merges; /* hash table with n_slots slots */
    uint32_t n_slots;
    uint32_t n_merges;
    int32_t byte_ids[256]; /* VP_TOKEN_NONE: the byte is dropped */
};

/* Memory of one thread for merging long pieces. Initialise to zero. */
struct vp_bpe_scratch {
    struct vp_bpe_symbol *symbols;
    uint64_t *heap;  /* 3 * capacity */
    size_t capacity; /* capacity of `symbols` */
};

/* Looks up the tokens of single bytes. vp_bpe_add() then adds merges. */
void vp_bpe_init(struct vp_bpe *bpe, const struct vp_vocabulary *vocabulary);
void vp_bpe_release(struct vp_bpe *bpe);
void vp_bpe_scratch_release(struct vp_bpe_scratch *scratch);

/* Adds the merge of `left` and `right` into `id`, with the next rank. A pair
 * that was added before gets the new rank. Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_bpe_add(struct vp_bpe *bpe, uint32_t left, uint32_t right,
                          uint32_t id);

/* Appends the ids of the `n` bytes of `piece`. Returns VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_bpe_encode(const struct vp_bpe *bpe,
                             struct vp_bpe_scratch *scratch,
                             const unsigned char *piece, size_t n,
                             struct vp_ids *ids);

#endif
