/* Masks tokens of a BERT sample: 15 % are scored, of which 80 % become [MASK],
 * 10 % a random id of the vocabulary, and 10 % stay unchanged. */
#ifndef VP_DATA_BERT_MASK_H
#define VP_DATA_BERT_MASK_H

#include <stdint.h>

struct vp_bert_ids {
    int32_t pad, cls, sep, mask;
    int64_t vocab;
};

/* Key of the random numbers that choose the mask. */
struct vp_mask_key {
    uint64_t seed, sample;
    uint32_t part; /* distinguishes samples with the same `sample` */
};

/* Returns the number of scored tokens in a sequence of `n_tokens`, [CLS] and
 * [SEP] included: share * n_tokens rounded half to even, at least 1, at most
 * max_pred. */
int64_t vp_bert_n_scored(int64_t n_tokens, double share, int64_t max_pred);

/* Masks `tokens`, [n_tokens]: "[CLS] A [SEP] B [SEP]", where "[CLS] A [SEP]"
 * has n_first tokens. Every subset of n_scored text tokens is equally likely;
 * fewer are chosen if the text is shorter. Writes ascending positions and
 * original ids to positions_out, which may be NULL, and labels_out, [n_scored].
 * Returns their number. */
int64_t vp_bert_mask(const struct vp_bert_ids *ids,
                     const struct vp_mask_key *key, int64_t n_first,
                     int64_t n_tokens, int64_t n_scored, int32_t *tokens,
                     int32_t *positions_out, int32_t *labels_out);

#endif
