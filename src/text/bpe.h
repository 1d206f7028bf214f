/* Byte-level BPE: the bytes of a piece, of which neighbours are merged, the
 * pair of the lowest rank first, until no pair has a rank. */
#ifndef VP_TEXT_BPE_H
#define VP_TEXT_BPE_H

#include "text/ids.h"
#include "text/vocabulary.h"

#define VP_BPE_NO_PAIR UINT64_MAX /* no pair has such ids */

struct vp_bpe_merge {
    uint64_t pair; /* left id << 32 | right id; VP_BPE_NO_PAIR: an empty slot */
    uint32_t rank;
    uint32_t id;
};

/* All zero: no merges, no bytes. */
struct vp_bpe {
    struct vp_bpe_merge *merges; /* hash table of n_slots */
    uint32_t n_slots;
    uint32_t n_merges;
    int32_t byte_ids[256]; /* VP_TOKEN_NONE: the byte is dropped */
};

/* What a thread needs to merge long pieces. All zero: nothing yet. */
struct vp_bpe_scratch {
    struct vp_bpe_symbol *symbols;
    uint64_t *heap; /* as many as symbols times 3 */
    size_t capacity;
};

/* Finds the tokens of bytes; merges follow. */
void vp_bpe_init(struct vp_bpe *bpe, const struct vp_vocabulary *vocabulary);
void vp_bpe_release(struct vp_bpe *bpe);
void vp_bpe_scratch_release(struct vp_bpe_scratch *scratch);

/* Adds the merge of the next rank. A pair that is there already gets the new
 * rank. VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_bpe_add(struct vp_bpe *bpe, uint32_t left, uint32_t right,
                          uint32_t id);

/* Appends the ids of a piece. VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_bpe_encode(const struct vp_bpe *bpe,
                             struct vp_bpe_scratch *scratch,
                             const unsigned char *piece, size_t n,
                             struct vp_ids *ids);

#endif
