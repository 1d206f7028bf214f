/* The loop that trains BPE and WordPiece: merges the most frequent pair of
 * neighbouring symbols in all words, again and again. Same results as
 * BpeTrainer of Hugging Face. */
#ifndef VP_TEXT_PAIR_MERGER_H
#define VP_TEXT_PAIR_MERGER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct vp_pair_merger;

enum vp_status vp_pair_merger_create(struct vp_pair_merger **out);
void vp_pair_merger_free(struct vp_pair_merger *merger);

/* Adds a word that occurs `count` times. Copies the symbols. All words are
 * added before the first merge. VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_pair_merger_add(struct vp_pair_merger *merger,
                                  const uint32_t *symbols, size_t n,
                                  int64_t count);
/* Counts the pairs of all words. */
enum vp_status vp_pair_merger_start(struct vp_pair_merger *merger);

struct vp_pair {
    uint32_t left, right;
    uint64_t count;
};

/* The most frequent pair, of equal ones the one with the smaller ids. Returns
 * false if no pair is left. It stays the current one until the next call. */
bool vp_pair_merger_next(struct vp_pair_merger *merger, struct vp_pair *out);
/* Puts `symbol` in place of the current pair. VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_pair_merger_merge(struct vp_pair_merger *merger,
                                    uint32_t symbol);

#endif
