/* Beam search over a batch of sentences as a state machine: the caller computes
 * logits, vp_beam_step() chooses the next tokens and the beams they continue.
 *
 *     vp_beam_create(&options, n_sentences, max_tokens, &beam, &err);
 *     while (!vp_beam_is_done(beam)) {
 *         ... logits of all rows ...
 *         vp_beam_step(beam, logits, next, &err);
 *         ... row i continues row next[i].parent with next[i].token:
 *             reorder the key-value cache ...
 *     }
 *     vp_beam_result(beam, sentence, 0, ids, &n, &score);
 *
 * Sentence s has the rows s * n_beams to s * n_beams + n_beams - 1. Sentences
 * do not influence each other, so results do not depend on the batch.
 *
 * A step sorts all continuations of a sentence by the sum of log-probabilities,
 * equal sums by row and id, and keeps the best max(2, 1 + n_eos) * n_beams as
 * candidates. A candidate that ends with EOS becomes a result if it is among
 * the first n_beams. The first n_beams of the other candidates become the next
 * rows. The score of a result is its sum divided by n_tokens ^ length_penalty;
 * n_tokens includes EOS. */
#ifndef VP_DECODE_BEAM_H
#define VP_DECODE_BEAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The rules of two libraries. They differ in:
 *
 *                  HF (generate of transformers 5)   FAIRSEQ
 *   results        the best n_beams are kept         the first n_beams are kept
 *   sentence ends  see enum vp_beam_stop             with n_beams results
 *   max_tokens     the first n_beams candidates      the last token is EOS
 *                  are results, with or without EOS
 *   forced_bos     has log-probability 0             its own log-probability */
enum vp_beam_rule { VP_BEAM_HF, VP_BEAM_FAIRSEQ };

/* The condition under which a sentence with n_beams results ends with
 * VP_BEAM_HF: `early_stopping` of Hugging Face. One beam is greedy search and
 * always stops at EOS. */
enum vp_beam_stop {
    VP_BEAM_STOP_NO_GAIN, /* false: the best running sum, divided by its
                             length ^ length_penalty, is not above the worst
                             result */
    VP_BEAM_STOP_FULL,    /* true: at once */
    VP_BEAM_STOP_NEVER,   /* "never": as NO_GAIN; if length_penalty > 0, with
                             max_tokens as the length */
};

enum { VP_BEAM_MAX_EOS = 4, VP_BEAM_MAX_BEAMS = 1024 };

struct vp_beam_options {
    enum vp_beam_rule rule;
    enum vp_beam_stop early_stopping; /* VP_BEAM_FAIRSEQ: ignored */
    int n_ids;                        /* size of the vocabulary */
    int n_beams;                      /* 1: greedy */
    double length_penalty;            /* > 1 favours long results */
    int min_tokens;                   /* least number of tokens before EOS */
    int32_t eos[VP_BEAM_MAX_EOS];
    int n_eos;          /* VP_BEAM_FAIRSEQ: 1; VP_BEAM_HF: 0 or more */
    int32_t pad;        /* never generated; -1: none */
    int32_t unk;        /* -1: none */
    double unk_penalty; /* subtracted from the log-probability of unk */
    int32_t forced_bos; /* the first token; -1: none */
};

/* Returns the defaults of a rule: one beam, length penalty 1, no ids. */
struct vp_beam_options vp_beam_defaults(enum vp_beam_rule rule);

/* Returns VP_OK, or VP_ERR_INVALID with a message that names the option. */
enum vp_status vp_beam_check(const struct vp_beam_options *options,
                             struct vp_err *err);

/* Returns fairseq's limit on the length of a result: min(a * n_source + b,
 * n_positions - 1) tokens, plus 1 for EOS. `n_source` is the length of the
 * source with its EOS. */
int vp_beam_fairseq_max_tokens(double a, int b, int n_source, int n_positions);

struct vp_beam;

/* Checks the options and allocates all memory of the search. `max_tokens` has
 * the largest number of tokens of a result for each sentence, EOS and
 * forced_bos included; it is copied. Returns VP_OK, VP_ERR_INVALID or
 * VP_ERR_NOMEM. */
enum vp_status vp_beam_create(const struct vp_beam_options *options,
                              int n_sentences, const int *max_tokens,
                              struct vp_beam **beam_out, struct vp_err *err);
void vp_beam_free(struct vp_beam *beam);

/* Row i of the next step. */
struct vp_beam_row {
    int32_t parent; /* row of the same sentence whose tokens it continues */
    int32_t token;  /* the next token */
};

/* Does one step. logits: [n_sentences * n_beams, n_ids]; a log-softmax is
 * applied, so log-probabilities may be passed too. The first step reads only
 * row 0 of each sentence; rows of finished sentences are never read. next_out:
 * [n_sentences * n_beams]. A finished sentence keeps its rows, with token 0. If
 * a sentence has fewer candidates than rows, the other rows repeat its first
 * row and are not read in the next step. Returns VP_OK, or VP_ERR_NONFINITE if
 * a logit that is read is NaN or infinite; the search then stays as it was.
 * Must not be called when all sentences are done. */
enum vp_status vp_beam_step(struct vp_beam *beam, const float *logits,
                            struct vp_beam_row *next_out, struct vp_err *err);

/* Return true if all sentences are finished, or one is. */
bool vp_beam_is_done(const struct vp_beam *beam);
bool vp_beam_sentence_is_done(const struct vp_beam *beam, int sentence);

/* Returns the number of results of a sentence so far, at most n_beams. A
 * finished sentence has at least one, unless the options allowed no token. */
int vp_beam_n_results(const struct vp_beam *beam, int sentence);
/* Writes result `i` of a sentence; results are in order of falling scores.
 * `ids_out` must have room for max_tokens of the sentence. EOS is the last id,
 * if the result has one. */
void vp_beam_result(const struct vp_beam *beam, int sentence, int i,
                    int32_t *ids_out, int *n_out, double *score_out);

#endif
