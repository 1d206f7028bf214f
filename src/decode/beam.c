/* Beam search. Each step stores the token of every row and the row it
 * continues; a result is the step and row of its last token, and is read
 * backwards from there. */
#include "decode/beam.h"

#include "base/memory.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* A token that continues a row. */
struct candidate {
    double sum; /* sum of log-probabilities up to this token */
    int32_t parent, token;
};

struct result {
    double score;
    int n_tokens;
    int32_t parent, token; /* the last token and the row that it continues */
};

struct sentence {
    int max_tokens;
    bool done;
    int n_results;
    struct result *results; /* [n_beams], the best one first */
};

struct vp_beam {
    struct vp_arena arena;
    struct vp_beam_options options;
    int n_sentences, n_rows, most_candidates;
    int n_steps; /* steps so far: the number of tokens of each running row */
    struct sentence *sentences;
    double *sums;              /* [n_rows]; -INFINITY: the row is unused */
    double *norms;             /* [n_rows]: log of the sum of exp(logit) */
    struct vp_beam_row *steps; /* [largest max_tokens, n_rows] */
    struct candidate *candidates;
};

/* ---- Options ------------------------------------------------------------ */

struct vp_beam_options vp_beam_defaults(enum vp_beam_rule rule)
{
    return (struct vp_beam_options){
        .rule = rule,
        .n_beams = 1,
        .length_penalty = 1.0,
        .min_tokens = rule == VP_BEAM_FAIRSEQ ? 1 : 0,
        .pad = -1,
        .unk = -1,
        .forced_bos = -1,
    };
}

static bool is_eos(const struct vp_beam_options *options, int32_t id)
{
    for (int i = 0; i < options->n_eos; i++)
        if (options->eos[i] == id)
            return true;
    return false;
}

static enum vp_status check_id(const struct vp_beam_options *options,
                               const char *name, int32_t id, int32_t least,
                               struct vp_err *err)
{
    if (id < least || id >= options->n_ids)
        return vp_err_refuse(err, name,
                             "%s is %d; give an id of the vocabulary, from 0 "
                             "to %d%s",
                             name, (int)id, options->n_ids - 1,
                             least < 0 ? " (-1: none)" : "");
    return VP_OK;
}

static enum vp_status check_ids(const struct vp_beam_options *options,
                                struct vp_err *err)
{
    int least_eos = options->rule == VP_BEAM_FAIRSEQ ? 1 : 0;
    int most_eos = options->rule == VP_BEAM_FAIRSEQ ? 1 : VP_BEAM_MAX_EOS;

    if (options->n_eos < least_eos || options->n_eos > most_eos)
        return vp_err_refuse(err, "n_eos",
                             "n_eos is %d; give %d to %d ids that end a "
                             "sentence",
                             options->n_eos, least_eos, most_eos);
    for (int i = 0; i < options->n_eos; i++)
        VP_TRY(check_id(options, "eos", options->eos[i], 0, err));
    VP_TRY(check_id(options, "pad", options->pad, -1, err));
    VP_TRY(check_id(options, "unk", options->unk, -1, err));
    VP_TRY(check_id(options, "forced_bos", options->forced_bos, -1, err));
    if (is_eos(options, options->pad))
        return vp_err_refuse(err, "pad eos",
                             "pad and eos are both %d; pad is never generated, "
                             "give -1",
                             (int)options->pad);
    if (is_eos(options, options->forced_bos))
        return vp_err_refuse(err, "forced_bos eos",
                             "forced_bos and eos are both %d; give another "
                             "first token",
                             (int)options->forced_bos);
    return VP_OK;
}

enum vp_status vp_beam_check(const struct vp_beam_options *options,
                             struct vp_err *err)
{
    if (options->n_ids < 1)
        return vp_err_refuse(err, "n_ids",
                             "n_ids is %d; give the size of the vocabulary",
                             options->n_ids);
    if (options->n_beams < 1 || options->n_beams > VP_BEAM_MAX_BEAMS)
        return vp_err_refuse(err, "n_beams", "n_beams is %d; give 1 to %d",
                             options->n_beams, (int)VP_BEAM_MAX_BEAMS);
    if (!isfinite(options->length_penalty))
        return vp_err_refuse(err, "length_penalty",
                             "length_penalty is %g; give a number",
                             options->length_penalty);
    if (!isfinite(options->unk_penalty))
        return vp_err_refuse(err, "unk_penalty",
                             "unk_penalty is %g; give a number",
                             options->unk_penalty);
    if (options->min_tokens < 0)
        return vp_err_refuse(err, "min_tokens",
                             "min_tokens is %d; give 0 or more",
                             options->min_tokens);
    return check_ids(options, err);
}

int vp_beam_fairseq_max_tokens(double a, int b, int n_source, int n_positions)
{
    double limit = floor(a * n_source + b);

    if (limit > n_positions - 1)
        limit = n_positions - 1;
    return (int)limit + 1;
}

/* ---- Memory ------------------------------------------------------------- */

static enum vp_status check_lengths(const struct vp_beam_options *options,
                                    int n_sentences, const int *max_tokens,
                                    struct vp_err *err)
{
    /* fairseq's min_tokens does not count EOS. */
    int least = options->rule == VP_BEAM_FAIRSEQ ? options->min_tokens + 1 : 1;

    if (n_sentences < 1 || n_sentences > INT_MAX / options->n_beams)
        return vp_err_refuse(err, "n_sentences n_beams",
                             "%d sentences of %d beams cannot be searched; "
                             "give at least 1 sentence and at most %d rows",
                             n_sentences, options->n_beams, INT_MAX);
    for (int s = 0; s < n_sentences; s++)
        if (max_tokens[s] < least)
            return vp_err_refuse(err, "max_tokens min_tokens",
                                 "max_tokens of sentence %d is %d; give %d or "
                                 "more",
                                 s, max_tokens[s], least);
    return VP_OK;
}

/* Returns an array in the arena, or NULL if it is too large. */
static void *make_array(struct vp_arena *arena, int64_t n, size_t size)
{
    int64_t n_bytes;

    if (!vp_mul_i64(n, (int64_t)size, &n_bytes))
        return NULL;
    return vp_arena_alloc(arena, (size_t)n_bytes);
}

/* Returns false if memory is exhausted. */
static bool allocate(struct vp_beam *beam, const int *max_tokens)
{
    struct vp_arena *arena = &beam->arena;
    struct result *results;
    int most_steps = 0;

    for (int s = 0; s < beam->n_sentences; s++)
        if (max_tokens[s] > most_steps)
            most_steps = max_tokens[s];
    beam->sentences = make_array(arena, beam->n_sentences,
                                 sizeof(*beam->sentences));
    beam->sums = make_array(arena, beam->n_rows, sizeof(*beam->sums));
    beam->norms = make_array(arena, beam->n_rows, sizeof(*beam->norms));
    beam->steps = make_array(arena, (int64_t)most_steps * beam->n_rows,
                             sizeof(*beam->steps));
    beam->candidates = make_array(arena, beam->most_candidates,
                                  sizeof(*beam->candidates));
    results = make_array(arena, beam->n_rows, sizeof(*results));
    if (!beam->sentences || !beam->sums || !beam->norms || !beam->steps ||
        !beam->candidates || !results)
        return false;
    for (int s = 0; s < beam->n_sentences; s++)
        beam->sentences[s] = (struct sentence){
            .max_tokens = max_tokens[s],
            .results = results + (int64_t)s * beam->options.n_beams,
        };
    return true;
}

enum vp_status vp_beam_create(const struct vp_beam_options *options,
                              int n_sentences, const int *max_tokens,
                              struct vp_beam **beam_out, struct vp_err *err)
{
    struct vp_beam *beam;

    VP_TRY(vp_beam_check(options, err));
    VP_TRY(check_lengths(options, n_sentences, max_tokens, err));
    beam = calloc(1, sizeof(*beam));
    if (!beam)
        goto no_memory;
    beam->options = *options;
    beam->n_sentences = n_sentences;
    beam->n_rows = n_sentences * options->n_beams;
    beam->most_candidates = options->n_beams *
                            (options->n_eos > 1 ? 1 + options->n_eos : 2);
    if (!allocate(beam, max_tokens))
        goto no_memory;
    /* All rows of a sentence are equal before the first step: only one is
     * used. */
    for (int row = 0; row < beam->n_rows; row++)
        beam->sums[row] = row % options->n_beams == 0 ? 0.0 : -INFINITY;
    *beam_out = beam;
    return VP_OK;

no_memory:
    vp_beam_free(beam);
    return vp_err_set(err, VP_ERR_NOMEM,
                      "out of memory for %d sentences of %d beams; give fewer "
                      "at once",
                      n_sentences, options->n_beams);
}

void vp_beam_free(struct vp_beam *beam)
{
    if (!beam)
        return;
    vp_arena_release(&beam->arena);
    free(beam);
}

/* ---- Candidates --------------------------------------------------------- */

static const float *row_of(const struct vp_beam *beam, const float *logits,
                           int row)
{
    return logits + (int64_t)row * beam->options.n_ids;
}

/* Sets norms[row]; the order of additions is fixed. */
static enum vp_status normalize(struct vp_beam *beam, const float *logits,
                                int row, struct vp_err *err)
{
    const float *x = row_of(beam, logits, row);
    float largest = x[0];
    double sum = 0.0;

    for (int i = 0; i < beam->options.n_ids; i++) {
        if (!isfinite(x[i]))
            return vp_err_set(err, VP_ERR_NONFINITE,
                              "the logit of id %d in row %d is %g after %d "
                              "tokens; check the weights of the model",
                              i, row, (double)x[i], beam->n_steps);
        if (x[i] > largest)
            largest = x[i];
    }
    for (int i = 0; i < beam->options.n_ids; i++)
        sum += exp((double)x[i] - (double)largest);
    beam->norms[row] = (double)largest + log(sum);
    return VP_OK;
}

/* Inserts a candidate after those with the same or a larger sum. If the list is
 * full, the last one is dropped. Returns the new length. */
static int insert(struct vp_beam *beam, int n,
                  const struct candidate *candidate)
{
    struct candidate *list = beam->candidates;
    int i = n < beam->most_candidates ? n : n - 1;

    if (n == beam->most_candidates && candidate->sum <= list[n - 1].sum)
        return n;
    for (; i > 0 && candidate->sum > list[i - 1].sum; i--)
        list[i] = list[i - 1];
    list[i] = *candidate;
    return n < beam->most_candidates ? n + 1 : n;
}

/* Returns the only id that this step allows, or -1 if it allows several. */
static int32_t forced_id(const struct vp_beam *beam,
                         const struct sentence *sentence)
{
    const struct vp_beam_options *options = &beam->options;

    if (options->rule == VP_BEAM_FAIRSEQ &&
        beam->n_steps == sentence->max_tokens - 1)
        return options->eos[0];
    return beam->n_steps == 0 ? options->forced_bos : -1;
}

static bool is_allowed(const struct vp_beam *beam, int32_t id)
{
    const struct vp_beam_options *options = &beam->options;

    if (id == options->pad)
        return false;
    return beam->n_steps >= options->min_tokens || !is_eos(options, id);
}

/* Adds the tokens that can continue `row` to the list of `n` candidates.
 * Returns the new length. */
static int add_candidates(struct vp_beam *beam, const float *logits, int row,
                          int32_t forced, int n)
{
    const struct vp_beam_options *options = &beam->options;
    const float *x = row_of(beam, logits, row);
    double sum = beam->sums[row], norm = beam->norms[row];

    if (forced >= 0) {
        struct candidate next = { .sum = sum, .parent = row, .token = forced };

        /* Hugging Face gives a forced token the log-probability 0. */
        if (options->rule == VP_BEAM_FAIRSEQ)
            next.sum += (double)x[forced] - norm;
        return insert(beam, n, &next);
    }
    for (int32_t id = 0; id < options->n_ids; id++) {
        struct candidate next = { .sum = sum + ((double)x[id] - norm),
                                  .parent = row,
                                  .token = id };

        if (id == options->unk)
            next.sum -= options->unk_penalty;
        if (is_allowed(beam, id))
            n = insert(beam, n, &next);
    }
    return n;
}

/* ---- Steps -------------------------------------------------------------- */

/* Adds a result that ends with the candidate `end`. A full list keeps the best
 * results with VP_BEAM_HF, the earliest with VP_BEAM_FAIRSEQ. */
static void add_result(const struct vp_beam *beam, struct sentence *sentence,
                       const struct candidate *end)
{
    int n_beams = beam->options.n_beams, n_tokens = beam->n_steps + 1;
    struct result *list = sentence->results;
    struct result result = {
        .score = end->sum / pow(n_tokens, beam->options.length_penalty),
        .n_tokens = n_tokens,
        .parent = end->parent,
        .token = end->token,
    };
    int i = sentence->n_results;

    if (i == n_beams) {
        if (beam->options.rule == VP_BEAM_FAIRSEQ ||
            result.score <= list[i - 1].score)
            return;
        i--;
    } else {
        sentence->n_results++;
    }
    for (; i > 0 && result.score > list[i - 1].score; i--)
        list[i] = list[i - 1];
    list[i] = result;
}

/* Returns true if the results of a sentence are final. `best` is the largest
 * sum of its running rows, which have `n_tokens` tokens. */
static bool has_ended(const struct vp_beam *beam,
                      const struct sentence *sentence, double best,
                      int n_tokens)
{
    const struct vp_beam_options *options = &beam->options;
    int length = n_tokens;

    if (n_tokens == sentence->max_tokens || best == -INFINITY)
        return true;
    if (sentence->n_results < options->n_beams)
        return false;
    if (options->rule == VP_BEAM_FAIRSEQ || options->n_beams == 1 ||
        options->early_stopping == VP_BEAM_STOP_FULL)
        return true;
    if (options->early_stopping == VP_BEAM_STOP_NEVER &&
        options->length_penalty > 0.0)
        length = sentence->max_tokens;
    return best / pow(length, options->length_penalty) <=
           sentence->results[options->n_beams - 1].score;
}

/* Chooses the next rows of a sentence among `n` candidates. */
static void advance(struct vp_beam *beam, int number, int n,
                    struct vp_beam_row *next)
{
    const struct vp_beam_options *options = &beam->options;
    struct sentence *sentence = &beam->sentences[number];
    int first = number * options->n_beams, n_next = 0;
    /* In the last step of fairseq, all candidates end with EOS. */
    bool last = beam->n_steps == sentence->max_tokens - 1;

    for (int i = 0; i < n; i++) {
        const struct candidate *candidate = &beam->candidates[i];

        if (last || is_eos(options, candidate->token)) {
            if (i < options->n_beams)
                add_result(beam, sentence, candidate);
        } else if (n_next < options->n_beams) {
            next[first + n_next] = (struct vp_beam_row){
                .parent = candidate->parent, .token = candidate->token
            };
            beam->sums[first + n_next++] = candidate->sum;
        }
    }
    if (n_next == 0)
        next[first] = (struct vp_beam_row){ .parent = first };
    for (int i = n_next; i < options->n_beams; i++) {
        next[first + i] = next[first];
        beam->sums[first + i] = -INFINITY;
    }
    sentence->done = has_ended(beam, sentence, beam->sums[first],
                               beam->n_steps + 1);
}

enum vp_status vp_beam_step(struct vp_beam *beam, const float *logits,
                            struct vp_beam_row *next_out, struct vp_err *err)
{
    int n_beams = beam->options.n_beams;
    struct vp_beam_row *step = beam->steps +
                               (int64_t)beam->n_steps * beam->n_rows;

    VP_BUG_ON(vp_beam_is_done(beam));
    for (int row = 0; row < beam->n_rows; row++)
        if (!beam->sentences[row / n_beams].done &&
            beam->sums[row] != -INFINITY)
            VP_TRY(normalize(beam, logits, row, err));

    for (int s = 0; s < beam->n_sentences; s++) {
        int first = s * n_beams, n = 0;
        int32_t forced = forced_id(beam, &beam->sentences[s]);

        if (beam->sentences[s].done) {
            for (int row = first; row < first + n_beams; row++)
                next_out[row] = (struct vp_beam_row){ .parent = row };
            continue;
        }
        for (int row = first; row < first + n_beams; row++)
            if (beam->sums[row] != -INFINITY)
                n = add_candidates(beam, logits, row, forced, n);
        advance(beam, s, n, next_out);
    }
    for (int row = 0; row < beam->n_rows; row++)
        step[row] = next_out[row];
    beam->n_steps++;
    return VP_OK;
}

/* ---- Results ------------------------------------------------------------ */

bool vp_beam_is_done(const struct vp_beam *beam)
{
    for (int s = 0; s < beam->n_sentences; s++)
        if (!beam->sentences[s].done)
            return false;
    return true;
}

bool vp_beam_sentence_is_done(const struct vp_beam *beam, int sentence)
{
    return beam->sentences[sentence].done;
}

int vp_beam_n_results(const struct vp_beam *beam, int sentence)
{
    return beam->sentences[sentence].n_results;
}

void vp_beam_result(const struct vp_beam *beam, int sentence, int i,
                    int32_t *ids_out, int *n_out, double *score_out)
{
    const struct result *result = &beam->sentences[sentence].results[i];
    struct vp_beam_row at = { .parent = result->parent,
                              .token = result->token };

    for (int t = result->n_tokens - 1; t >= 0; t--) {
        ids_out[t] = at.token;
        if (t > 0)
            at = beam->steps[(int64_t)(t - 1) * beam->n_rows + at.parent];
    }
    *n_out = result->n_tokens;
    *score_out = result->score;
}
