/* Generation and translation of the synthetic language, and its data source. */
#include "data/language.h"

#include "base/rng.h"
#include "data/source.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_SAMPLES = 16384, DEFAULT_VOCAB = 96 };

/* Fixed, because samples do not depend on the seed of a run. */
static const uint64_t language_seed = 0x6C616E67;

static struct vp_word_range take(int32_t *next, int32_t n)
{
    struct vp_word_range words = { *next, n };

    *next += n;
    return words;
}

static int32_t at_least_one(int64_t n)
{
    return n > 1 ? (int32_t)n : 1;
}

void vp_language_init(struct vp_language *language, int64_t vocab)
{
    int32_t next = VP_TOKEN_FIRST;
    int32_t n_open;

    VP_BUG_ON(vocab < VP_LANGUAGE_MIN_VOCAB || vocab > INT32_MAX);
    language->n_words = (int32_t)vocab - VP_TOKEN_FIRST;
    language->stop = next++;
    for (int k = 0; k < VP_LANGUAGE_BRACKETS; k++) {
        language->open[k] = next++;
        language->close[k] = next++;
    }
    n_open = (int32_t)vocab - next; /* nouns 4/8, verbs 2/8, the rest 2/8 */
    for (int c = 0; c < VP_LANGUAGE_CLASSES; c++)
        language->noun[c] = take(&next, at_least_one(n_open / 8));
    for (int c = 0; c < VP_LANGUAGE_CLASSES; c++)
        language->verb[c] = take(&next, at_least_one(n_open / 16));
    language->prep = take(&next, at_least_one(n_open / 16));
    language->adj = take(&next, (int32_t)vocab - next);
}

/* ---- Generation --------------------------------------------------------- */

/* Output and random state of a sample that is generated. */
struct writer {
    const struct vp_language *language;
    int32_t *out;
    int64_t n, capacity; /* words beyond the capacity are dropped */
    uint64_t sample;
    uint32_t n_draws;
    struct vp_rng4 bits;
};

static uint32_t draw_below(struct writer *w, uint32_t n)
{
    if (w->n_draws % 4 == 0)
        w->bits = vp_rng(language_seed, VP_RNG_LANGUAGE, 0, w->n_draws / 4, 0,
                         w->sample);
    return vp_rng_below(w->bits.v[w->n_draws++ % 4], n);
}

/* Returns true with probability num / den. */
static bool draw_chance(struct writer *w, uint32_t num, uint32_t den)
{
    return draw_below(w, den) < num;
}

/* Returns a number below `n`. Small numbers are more frequent, like the
 * frequent words of a natural vocabulary. */
static int32_t draw_skewed(struct writer *w, int32_t n)
{
    uint32_t bound = draw_below(w, (uint32_t)n) + 1;

    return (int32_t)draw_below(w, bound);
}

static void put(struct writer *w, int32_t id)
{
    if (w->n < w->capacity)
        w->out[w->n] = id;
    w->n++;
}

/* Returns the number of the noun within its class. */
static int32_t put_noun_phrase(struct writer *w, int class)
{
    const struct vp_word_range *nouns = &w->language->noun[class];
    int32_t number;

    if (draw_chance(w, 1, 2))
        put(w, w->language->adj.first + draw_skewed(w, w->language->adj.n));
    number = draw_skewed(w, nouns->n);
    put(w, nouns->first + number);
    return number;
}

static void put_any_noun_phrase(struct writer *w)
{
    put_noun_phrase(w, (int)draw_below(w, VP_LANGUAGE_CLASSES));
}

static void put_verb(struct writer *w, int class, int32_t subject)
{
    const struct vp_word_range *verbs = &w->language->verb[class];
    int32_t number = subject % verbs->n;

    if (draw_chance(w, 1, 4))
        number = draw_skewed(w, verbs->n);
    put(w, verbs->first + number);
}

static void put_clause(struct writer *w, int depth)
{
    const struct vp_language *language = w->language;
    int class = (int)draw_below(w, VP_LANGUAGE_CLASSES);
    int32_t subject = put_noun_phrase(w, class);

    if (draw_chance(w, 1, 2)) {
        put(w, language->prep.first + draw_skewed(w, language->prep.n));
        put_any_noun_phrase(w);
    }
    if (depth < VP_LANGUAGE_DEPTH && draw_chance(w, 1, 3)) {
        uint32_t kind = draw_below(w, VP_LANGUAGE_BRACKETS);

        put(w, language->open[kind]);
        put_clause(w, depth + 1);
        put(w, language->close[kind]);
    }
    put_verb(w, class, subject);
    if (draw_chance(w, 1, 2))
        put_any_noun_phrase(w);
}

static void put_sentence(struct writer *w)
{
    put_clause(w, 0);
    put(w, w->language->stop);
}

void vp_language_window(const struct vp_language *language, uint64_t sample,
                        int64_t n, int32_t *ids_out)
{
    struct writer w = {
        .language = language, .out = ids_out, .capacity = n, .sample = sample
    };

    while (w.n < n)
        put_sentence(&w);
}

int64_t vp_language_sentences(const struct vp_language *language,
                              uint64_t sample, int32_t *ids_out)
{
    struct writer w = { .language = language,
                        .out = ids_out,
                        .capacity = VP_LANGUAGE_MAX_PAIR,
                        .sample = sample };
    int32_t n = 1 + draw_skewed(&w, VP_LANGUAGE_SENTENCES);

    for (int32_t i = 0; i < n; i++)
        put_sentence(&w);
    VP_BUG_ON(w.n > w.capacity);
    return w.n;
}

/* ---- Translation -------------------------------------------------------- */

static bool is_verb(const struct vp_language *language, int32_t id)
{
    const struct vp_word_range *first = &language->verb[0];

    return id >= first->first &&
           id < first->first + VP_LANGUAGE_CLASSES * first->n;
}

/* Returns 1 for an opening bracket, -1 for a closing one, 0 for other words. */
static int bracket_step(const struct vp_language *language, int32_t id)
{
    for (int k = 0; k < VP_LANGUAGE_BRACKETS; k++) {
        if (id == language->open[k])
            return 1;
        if (id == language->close[k])
            return -1;
    }
    return 0;
}

static int32_t counterpart(const struct vp_language *language, int32_t id)
{
    int32_t n = language->n_words;

    return VP_TOKEN_FIRST + (id - VP_TOKEN_FIRST + n / 2) % n;
}

/* Translates one sentence of `n` ids, including its STOP. */
static void translate_sentence(const struct vp_language *language,
                               const int32_t *ids, int64_t n, int32_t *out)
{
    int64_t verb = -1;
    int depth = 0;

    for (int64_t i = 0; i < n - 1; i++) {
        depth += bracket_step(language, ids[i]);
        if (depth == 0 && is_verb(language, ids[i]))
            verb = i;
        else
            *out++ = counterpart(language, ids[i]);
    }
    VP_BUG_ON(verb < 0);
    *out++ = counterpart(language, ids[verb]);
    *out = counterpart(language, ids[n - 1]);
}

void vp_language_translate(const struct vp_language *language,
                           const int32_t *ids, int64_t n, int32_t *ids_out)
{
    int64_t begin = 0;

    for (int64_t i = 0; i < n; i++) {
        if (ids[i] != language->stop)
            continue;
        /* Sentences before this one are translated to the ids after it. */
        translate_sentence(language, ids + begin, i + 1 - begin,
                           ids_out + n - (i + 1));
        begin = i + 1;
    }
}

/* ---- The source --------------------------------------------------------- */

struct language_state {
    struct vp_language language;
    int64_t n_ids; /* per window */
};

static void language_close(struct vp_source *source)
{
    free(source->state);
}

static enum vp_status language_open(const struct vp_data_config *config,
                                    const struct vp_data_window *window,
                                    struct vp_source *source,
                                    struct vp_err *err)
{
    int64_t vocab = config->vocab ? config->vocab : DEFAULT_VOCAB;
    struct language_state *state;

    if (vocab < VP_LANGUAGE_MIN_VOCAB || vocab > INT32_MAX)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: vocab is %lld, which the generated language "
                          "cannot have; set it between %d and %d",
                          config->vocab_place ? config->vocab_place : "data",
                          (long long)vocab, VP_LANGUAGE_MIN_VOCAB, INT32_MAX);
    state = calloc(1, sizeof(*state));
    if (!state)
        return vp_err_set(err, VP_ERR_NOMEM,
                          "generated language: out of memory");
    vp_language_init(&state->language, vocab);
    state->n_ids = window->length;
    source->state = state;
    source->n_samples = N_SAMPLES;
    source->vocab = vocab;
    source->max_pair = VP_LANGUAGE_MAX_PAIR;
    snprintf(source->what, sizeof(source->what),
             "generated language: %lld ids, %d samples", (long long)vocab,
             N_SAMPLES);
    return VP_OK;
}

static enum vp_status language_window(const struct vp_source *source, int64_t i,
                                      int32_t *ids_out, struct vp_err *err)
{
    const struct language_state *state = source->state;

    (void)err; /* nothing can fail */
    vp_language_window(&state->language, (uint64_t)i, state->n_ids, ids_out);
    return VP_OK;
}

static enum vp_status language_pair(const struct vp_source *source, int64_t i,
                                    int32_t *src_out, int64_t *n_src_out,
                                    int32_t *tgt_out, int64_t *n_tgt_out,
                                    struct vp_err *err)
{
    const struct language_state *state = source->state;
    int64_t n;

    (void)err; /* nothing can fail */
    n = vp_language_sentences(&state->language, (uint64_t)i, src_out);
    vp_language_translate(&state->language, src_out, n, tgt_out);
    *n_src_out = n;
    *n_tgt_out = n;
    return VP_OK;
}

const struct vp_source_ops vp_source_language = {
    .name = "generated language",
    .open = language_open,
    .close = language_close,
    .window = language_window,
    .pair = language_pair,
};
