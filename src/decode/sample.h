/* Samples the id of the next token from the logits of one position. The order
 * is that of Hugging Face `generate`: repetition penalty, temperature, top-k,
 * top-p, softmax, one draw.
 *
 * Pure functions. A draw depends on the logits, the options and three numbers
 * (seed, sequence, position), so a text does not depend on the batch it was
 * generated in or on the partition of the model. */
#ifndef VP_DECODE_SAMPLE_H
#define VP_DECODE_SAMPLE_H

#include "base/status.h"

#include <stdint.h>

struct vp_sample_options {
    double repetition_penalty; /* > 0; 1: off; > 1 makes ids of the history
                                  less likely */
    double temperature;        /* >= 0; 0: the id with the largest logit */
    int top_k;                 /* >= 0; 0: off */
    double top_p;              /* from 0 to 1; 1: off */
};

/* Always the id with the largest logit. */
#define VP_SAMPLE_GREEDY                                           \
    {                                                              \
        .repetition_penalty = 1.0, .temperature = 0.0, .top_k = 0, \
        .top_p = 1.0                                               \
    }

/* Returns VP_OK, or VP_ERR_INVALID with a message that names the option. */
enum vp_status vp_sample_check(const struct vp_sample_options *options,
                               struct vp_err *err);

/* Logits of one position, and the ids before it. */
struct vp_sample_input {
    const float *logits; /* [n_ids] */
    int n_ids;           /* size of the vocabulary, at least 1 */
    /* Prompt and output so far, for the repetition penalty. Ids outside the
     * vocabulary are ignored. */
    const int32_t *history;
    int n_history;
};

/* An id that can be drawn. */
struct vp_sample_candidate {
    int32_t id;
    float score;        /* logit after repetition penalty and temperature */
    double probability; /* the probabilities of all candidates sum to 1 */
};

/* Writes the ids that can be drawn to `candidates`, which has room for n_ids,
 * and their number, at least 1. With temperature 0, top-k or top-p they are
 * sorted by falling score, equal scores by id; otherwise by id. `options` must
 * have passed vp_sample_check().
 *
 *   top-k  drops scores below the k-th largest; scores equal to it stay
 *   top-p  adds up the probabilities that top-k left, from the smallest on, and
 *          drops ids while the sum is at most 1 - top_p. Of equal scores the
 *          largest id is dropped first. The most likely id always stays.
 *
 * Returns VP_OK, or VP_ERR_NONFINITE if a logit is NaN or infinite, before or
 * after penalty and temperature. */
enum vp_status vp_sample_filter(const struct vp_sample_options *options,
                                const struct vp_sample_input *input,
                                struct vp_sample_candidate *candidates,
                                int *n_out, struct vp_err *err);

/* Identifies a draw: the same numbers give the same result. */
struct vp_sample_key {
    uint64_t seed;
    uint64_t sequence; /* index of the text among all texts of the job */
    uint32_t position; /* position of the drawn token in its text */
};

/* Draws one of `n` candidates according to their probabilities. Returns its
 * id. */
int32_t vp_sample_draw(const struct vp_sample_candidate *candidates, int n,
                       const struct vp_sample_key *key);

/* Calls vp_sample_filter() and vp_sample_draw(). `work` must have room for
 * n_ids; its contents afterwards are unspecified. */
enum vp_status vp_sample(const struct vp_sample_options *options,
                         const struct vp_sample_input *input,
                         const struct vp_sample_key *key,
                         struct vp_sample_candidate *work, int32_t *id_out,
                         struct vp_err *err);

#endif
