/* The core of BPE and WordPiece training: repeatedly merges the most frequent
 * pair of neighbouring symbols in all words. Results equal those of BpeTrainer
 * of Hugging Face. */
#ifndef VP_TEXT_PAIR_MERGER_H
#define VP_TEXT_PAIR_MERGER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_pair_merger;

enum vp_status vp_pair_merger_create(struct vp_pair_merger **out);
void vp_pair_merger_free(struct vp_pair_merger *merger);

/* Adds a word of `n` symbols that occurs `count` times. Copies the symbols. All
 * words must be added before vp_pair_merger_start(). Returns VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_pair_merger_add(struct vp_pair_merger *merger,
                                  const uint32_t *symbols, size_t n,
                                  int64_t count);
/* Counts the pairs of all words. Call it once, after the last word. */
enum vp_status vp_pair_merger_start(struct vp_pair_merger *merger);

struct vp_pair {
    uint32_t left, right;
    uint64_t count;
};

/* Writes the most frequent pair; of equals, the one with the smaller ids. It
 * becomes the current pair. Returns false if no pair is left. */
bool vp_pair_merger_next(struct vp_pair_merger *merger, struct vp_pair *out);
/* Replaces the current pair by `symbol` in all words. Returns VP_OK or
 * VP_ERR_NOMEM. */
enum vp_status vp_pair_merger_merge(struct vp_pair_merger *merger,
                                    uint32_t symbol);

#endif
