/* Hides tokens of a BERT sample: 15 % are scored, of which 80 % become [MASK],
 * 10 % any id of the vocabulary, and 10 % stay as they are. */
#ifndef VP_DATA_BERT_MASK_H
#define VP_DATA_BERT_MASK_H

#include <stdint.h>

struct vp_bert_ids {
    int32_t pad, cls, sep, mask;
    int64_t vocab;
};

/* What decides the choice, by counter. */
struct vp_mask_key {
    uint64_t seed, sample;
    uint32_t part; /* of the sample */
};

/* How many tokens are scored in a sequence of n_tokens, [CLS] and [SEP]
 * included: the share rounded half to even, 1 to max_pred. */
int64_t vp_bert_n_scored(int64_t n_tokens, double share, int64_t max_pred);

/* tokens: [n_tokens], "[CLS] A [SEP] B [SEP]", A and its special ids n_first
 * tokens long. Every subset of n_scored text tokens is equally likely; fewer
 * are chosen if the text is shorter. Writes them in rising order to positions
 * and labels [n_scored]; positions_out may be NULL. Returns their number. */
int64_t vp_bert_mask(const struct vp_bert_ids *ids,
                     const struct vp_mask_key *key, int64_t n_first,
                     int64_t n_tokens, int64_t n_scored, int32_t *tokens,
                     int32_t *positions_out, int32_t *labels_out);

#endif
