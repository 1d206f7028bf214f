/* From the logits of one position to the id of the next token. The order is that
 * of Hugging Face `generate`: repetition penalty, temperature, top-k, top-p,
 * softmax, one draw.
 *
 * Pure functions. A draw depends on the logits, the options and three numbers
 * (seed, sequence, position), so a text does not depend on the batch it was
 * generated in or on the partition of the model. */
#ifndef VP_DECODE_SAMPLE_H
#define VP_DECODE_SAMPLE_H

#include "base/status.h"

#include <stdint.h>

struct vp_sample_options {
    double repetition_penalty; /* > 0; 1: off; > 1 makes ids that were used
                                  before less likely */
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

/* VP_OK, or VP_ERR_INVALID with a message that names the option. */
enum vp_status vp_sample_check(const struct vp_sample_options *options,
                               struct vp_err *err);

/* Logits of one position, and the ids before it. */
struct vp_sample_input {
    const float *logits; /* [n_ids] */
    int n_ids;           /* size of the vocabulary, at least 1 */
    /* Prompt and output so far, for the repetition penalty. Ids outside of the
     * vocabulary are ignored. */
    const int32_t *history;
    int n_history;
};

/* An id that can be drawn. */
struct vp_sample_candidate {
    int32_t id;
    float score;        /* logit after repetition penalty and temperature */
    double probability; /* of all candidates: sum 1 */
};

/* Writes the ids that can be drawn to `candidates`, which has room for n_ids,
 * and their number, at least 1. With temperature 0, top-k or top-p they are in
 * order of falling scores, equal scores in order of ids; otherwise in order of
 * ids. `options` must have passed vp_sample_check().
 *
 *   top-k  drops scores below the k-th largest; scores equal to it stay
 *   top-p  adds up the probabilities of what top-k left, from the smallest on,
 *          and drops ids while the sum is at most 1 - top_p. Of equal scores
 *          the largest id is dropped first. The most likely id stays.
 *
 * VP_OK, or VP_ERR_NONFINITE if a logit is NaN or infinite, also where the
 * penalty or the temperature made it so. */
enum vp_status vp_sample_filter(const struct vp_sample_options *options,
                                const struct vp_sample_input *input,
                                struct vp_sample_candidate *candidates,
                                int *n_out, struct vp_err *err);

/* Names a draw; the same numbers give the same draw. */
struct vp_sample_key {
    uint64_t seed;
    uint64_t sequence; /* number of the text among all texts of the job */
    uint32_t position; /* of the drawn token in its text */
};

/* Draws one of `n` candidates by their probabilities. Returns its id. */
int32_t vp_sample_draw(const struct vp_sample_candidate *candidates, int n,
                       const struct vp_sample_key *key);

/* vp_sample_filter() and vp_sample_draw(). `work` has room for n_ids; what it
 * holds afterwards is unspecified. */
enum vp_status vp_sample(const struct vp_sample_options *options,
                         const struct vp_sample_input *input,
                         const struct vp_sample_key *key,
                         struct vp_sample_candidate *work, int32_t *id_out,
                         struct vp_err *err);

#endif
