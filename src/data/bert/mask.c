/* Choice and replacement of the masked tokens of a BERT sample. */
#include "data/bert/mask.h"

#include "base/rng.h"

#include <math.h>

int64_t vp_bert_n_scored(int64_t n_tokens, double share, int64_t max_pred)
{
    int64_t n = (int64_t)nearbyint(share * (double)n_tokens);

    n = n > 1 ? n : 1;
    return n < max_pred ? n : max_pred;
}

static int32_t mask_token(const struct vp_bert_ids *ids, int32_t id,
                          struct vp_rng4 r)
{
    uint32_t tenth = vp_rng_below(r.v[1], 10);

    if (tenth < 8)
        return ids->mask;
    if (tenth == 8)
        return (int32_t)vp_rng_below(r.v[2], (uint32_t)ids->vocab);
    return id;
}

/* Selection sampling, Knuth vol. 2, algorithm S. */
int64_t vp_bert_mask(const struct vp_bert_ids *ids,
                     const struct vp_mask_key *key, int64_t n_first,
                     int64_t n_tokens, int64_t n_scored, int32_t *tokens,
                     int32_t *positions_out, int32_t *labels_out)
{
    int64_t n_left = n_tokens - 3, n_chosen = 0;

    n_scored = n_scored < n_left ? n_scored : n_left;
    for (int64_t p = 1; n_chosen < n_scored; p++) {
        struct vp_rng4 r;

        if (p == n_first - 1)
            continue; /* [SEP] between A and B */
        r = vp_rng(key->seed, VP_RNG_MASKING, 1, (uint32_t)p, key->part,
                   key->sample);
        if (vp_rng_below(r.v[0], (uint32_t)n_left--) >=
            (uint32_t)(n_scored - n_chosen))
            continue;
        if (positions_out)
            positions_out[n_chosen] = (int32_t)p;
        labels_out[n_chosen++] = tokens[p];
        tokens[p] = mask_token(ids, tokens[p], r);
    }
    return n_chosen;
}
