/* Beam search over the toy model of tests/golden/make_beam.py gives the stored
 * results of plain implementations of both rules and of transformers. Rows that
 * the search must not read hold NaN. */
#include "decode/beam.h"

#include "lib/golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_IDS = 24, MOST_BEAMS = 5, MOST_TOKENS = 16, MOST_SENTENCES = 3 };
enum { MOST_ROWS = MOST_SENTENCES * MOST_BEAMS };

static const int32_t eos_ids[] = { 2, 7 };

/* A toy model with its search options; state[i] is a hash of the tokens of row
 * i. */
struct toy {
    struct vp_beam_options options;
    double eos_bias;
    int n_sentences;
    int prompts[MOST_SENTENCES], max_tokens[MOST_SENTENCES];
    uint64_t state[MOST_ROWS];
    bool live[MOST_ROWS]; /* false: the search must not read this row */
    float logits[MOST_ROWS * N_IDS];
};

struct hypothesis {
    double score;
    int n;
    int32_t ids[MOST_TOKENS];
};

/* ---- The toy model ------------------------------------------------------- */

static uint64_t toy_next(uint64_t state, int32_t token)
{
    return (state ^ (uint64_t)token) * UINT64_C(0x100000001B3);
}

static void toy_row(const struct toy *toy, uint64_t state, float *logits)
{
    for (int i = 0; i < N_IDS; i++) {
        uint64_t x = state + (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15);

        x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
        x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
        x ^= x >> 31;
        logits[i] = (float)(x >> 52) / 512.0f;
        for (int k = 0; k < toy->options.n_eos; k++)
            if (toy->options.eos[k] == i)
                logits[i] += (float)toy->eos_bias;
    }
}

static void toy_begin(struct toy *toy)
{
    int n_beams = toy->options.n_beams;

    for (int row = 0; row < toy->n_sentences * n_beams; row++) {
        toy->state[row] = toy_next(UINT64_C(0xCBF29CE484222325),
                                   toy->prompts[row / n_beams]);
        toy->live[row] = row % n_beams == 0;
    }
}

static void toy_logits(struct toy *toy)
{
    for (int row = 0; row < toy->n_sentences * toy->options.n_beams; row++) {
        float *logits = toy->logits + (int64_t)row * N_IDS;

        toy_row(toy, toy->state[row], logits);
        for (int i = 0; !toy->live[row] && i < N_IDS; i++)
            logits[i] = NAN;
    }
}

/* Rows continue their parents, as those of a key-value cache do. */
static void toy_follow(struct toy *toy, const struct vp_beam *beam,
                       const struct vp_beam_row *next)
{
    int n_beams = toy->options.n_beams;
    uint64_t state[MOST_ROWS];

    for (int row = 0; row < toy->n_sentences * n_beams; row++) {
        assert_int_equal(next[row].parent / n_beams, row / n_beams);
        state[row] = toy_next(toy->state[next[row].parent], next[row].token);
        toy->live[row] = !vp_beam_sentence_is_done(beam, row / n_beams);
    }
    memcpy(toy->state, state, sizeof(state));
    /* After a forced token only one row per sentence is read. */
    if (toy->options.forced_bos >= 0 &&
        next[0].token == toy->options.forced_bos)
        for (int row = 0; row < toy->n_sentences * n_beams; row++)
            if (row % n_beams != 0 &&
                state[row] == state[row / n_beams * n_beams])
                toy->live[row] = false;
}

static struct vp_beam *toy_search(struct toy *toy)
{
    struct vp_beam_row next[MOST_ROWS];
    struct vp_beam *beam = NULL;
    struct vp_err err = { .text = "" };

    if (vp_beam_create(&toy->options, toy->n_sentences, toy->max_tokens, &beam,
                       &err) != VP_OK)
        fail_msg("%s", err.text);
    toy_begin(toy);
    while (!vp_beam_is_done(beam)) {
        toy_logits(toy);
        if (vp_beam_step(beam, toy->logits, next, &err) != VP_OK)
            fail_msg("%s", err.text);
        toy_follow(toy, beam, next);
    }
    return beam;
}

static void get_result(const struct vp_beam *beam, int sentence, int i,
                       struct hypothesis *out)
{
    assert_true(i < vp_beam_n_results(beam, sentence));
    vp_beam_result(beam, sentence, i, out->ids, &out->n, &out->score);
}

/* ---- Stored results ------------------------------------------------------ */

static enum vp_beam_stop stop_named(const char *name)
{
    if (strcmp(name, "full") == 0)
        return VP_BEAM_STOP_FULL;
    return strcmp(name, "never") == 0 ? VP_BEAM_STOP_NEVER
                                      : VP_BEAM_STOP_NO_GAIN;
}

/* Returns false at the end of the file. */
static bool read_options(FILE *file, struct toy *toy)
{
    struct vp_beam_options *o = &toy->options;
    char rule[16], stop[16];
    int pad, unk, forced_bos;

    memset(toy, 0, sizeof(*toy));
    if (fscanf(file, " options %15s %15s %d %lf %d %d %d %d %lf %d %lf %d",
               rule, stop, &o->n_beams, &o->length_penalty, &o->min_tokens,
               &o->n_eos, &pad, &unk, &o->unk_penalty, &forced_bos,
               &toy->eos_bias, &toy->n_sentences) != 12)
        return false;
    o->rule = strcmp(rule, "hf") == 0 ? VP_BEAM_HF : VP_BEAM_FAIRSEQ;
    o->early_stopping = stop_named(stop);
    o->n_ids = N_IDS;
    o->pad = pad;
    o->unk = unk;
    o->forced_bos = forced_bos;
    assert_in_range(o->n_eos, 0, VP_COUNT_OF(eos_ids));
    memcpy(o->eos, eos_ids, sizeof(eos_ids));
    assert_true(o->n_beams <= MOST_BEAMS);
    assert_true(toy->n_sentences <= MOST_SENTENCES);
    return true;
}

/* Reads one sentence. Returns the number of its results. */
static int read_sentence(FILE *file, struct toy *toy, int s,
                         struct hypothesis want[MOST_BEAMS])
{
    int n_results;

    assert_int_equal(fscanf(file, " sentence %d %d %d", &toy->prompts[s],
                            &toy->max_tokens[s], &n_results),
                     3);
    assert_in_range(n_results, 1, MOST_BEAMS);
    assert_in_range(toy->max_tokens[s], 1, MOST_TOKENS);
    for (int i = 0; i < n_results; i++) {
        assert_int_equal(fscanf(file, "%lf %d", &want[i].score, &want[i].n), 2);
        assert_in_range(want[i].n, 1, MOST_TOKENS);
        for (int k = 0; k < want[i].n; k++) {
            int id;

            assert_int_equal(fscanf(file, "%d", &id), 1);
            want[i].ids[k] = id;
        }
    }
    return n_results;
}

static void check_results(const struct vp_beam *beam, int sentence,
                          const struct hypothesis *want, int n_want, int group)
{
    if (vp_beam_n_results(beam, sentence) != n_want)
        fail_msg("group %d, sentence %d: %d results, not %d", group, sentence,
                 vp_beam_n_results(beam, sentence), n_want);
    for (int i = 0; i < n_want; i++) {
        struct hypothesis got;

        get_result(beam, sentence, i, &got);
        if (got.n != want[i].n ||
            memcmp(got.ids, want[i].ids, (size_t)got.n * sizeof(got.ids[0])) !=
                0)
            fail_msg("group %d, sentence %d: other ids in result %d", group,
                     sentence, i);
        if (fabs(got.score - want[i].score) > 1e-8)
            fail_msg("group %d, sentence %d: score %.9f, not %.9f", group,
                     sentence, got.score, want[i].score);
    }
}

/* A search of the sentence alone gives the same bits as in the batch. */
static void check_alone(const struct toy *all, const struct vp_beam *batch,
                        int s)
{
    struct toy one = *all;
    struct vp_beam *beam;

    one.n_sentences = 1;
    one.prompts[0] = all->prompts[s];
    one.max_tokens[0] = all->max_tokens[s];
    beam = toy_search(&one);
    assert_int_equal(vp_beam_n_results(beam, 0), vp_beam_n_results(batch, s));
    for (int i = 0; i < vp_beam_n_results(beam, 0); i++) {
        struct hypothesis a, b;

        get_result(beam, 0, i, &a);
        get_result(batch, s, i, &b);
        assert_true(a.score == b.score);
        assert_int_equal(a.n, b.n);
        assert_memory_equal(a.ids, b.ids, (size_t)a.n * sizeof(a.ids[0]));
    }
    vp_beam_free(beam);
}

static void test_stored_searches(void **state)
{
    FILE *file = fopen(VP_SOURCE_DIR "/tests/golden/beam.txt", "r");
    struct toy toy;
    int n_groups = 0;

    (void)state;
    assert_non_null(file);
    while (read_options(file, &toy)) {
        struct hypothesis want[MOST_SENTENCES][MOST_BEAMS];
        int n_want[MOST_SENTENCES] = { 0 };
        struct vp_beam *beam;

        for (int s = 0; s < toy.n_sentences; s++)
            n_want[s] = read_sentence(file, &toy, s, want[s]);
        beam = toy_search(&toy);
        for (int s = 0; s < toy.n_sentences; s++) {
            check_results(beam, s, want[s], n_want[s], n_groups);
            check_alone(&toy, beam, s);
        }
        vp_beam_free(beam);
        n_groups++;
    }
    assert_int_equal(n_groups, 90);
    fclose(file);
}

/* ---- One beam ------------------------------------------------------------ */

/* One beam takes the largest logit until EOS, with each rule to stop. */
static void test_one_beam_is_greedy(void **state)
{
    (void)state;
    for (int prompt = 0; prompt < 60; prompt++) {
        struct toy toy = { .options = vp_beam_defaults(VP_BEAM_HF),
                           .eos_bias = 2.0,
                           .n_sentences = 1,
                           .prompts = { prompt },
                           .max_tokens = { MOST_TOKENS } };
        struct hypothesis got;
        struct vp_beam *beam;
        uint64_t at;
        int n = 0;

        toy.options.n_ids = N_IDS;
        toy.options.eos[0] = eos_ids[0];
        toy.options.n_eos = 1;
        toy.options.early_stopping = (enum vp_beam_stop)(prompt % 3);
        beam = toy_search(&toy);
        assert_int_equal(vp_beam_n_results(beam, 0), 1);
        get_result(beam, 0, 0, &got);

        at = toy_next(UINT64_C(0xCBF29CE484222325), prompt);
        do {
            float logits[N_IDS];
            int best = 0;

            toy_row(&toy, at, logits);
            for (int i = 1; i < N_IDS; i++)
                if (logits[i] > logits[best])
                    best = i;
            assert_true(n < got.n);
            assert_int_equal(got.ids[n++], best);
            at = toy_next(at, best);
        } while (n < MOST_TOKENS && got.ids[n - 1] != eos_ids[0]);
        assert_int_equal(got.n, n);
        vp_beam_free(beam);
    }
}

/* ---- Single steps with literal logits ------------------------------------ */

/* All logits are equal, so the order of rows and ids decides. pad (1) and, in
 * the first step, EOS (0) are not allowed; unk (3) has a penalty. */
static void test_equal_sums_in_order_of_rows_and_ids(void **state)
{
    enum { BEAMS = 2, IDS = 5 };
    static const float logits[BEAMS * IDS];
    struct vp_beam_options options = vp_beam_defaults(VP_BEAM_FAIRSEQ);
    struct vp_beam_row next[BEAMS];
    struct vp_beam *beam;
    int max_tokens = 4;

    (void)state;
    options.n_ids = IDS;
    options.n_beams = BEAMS;
    options.eos[0] = 0;
    options.n_eos = 1;
    options.pad = 1;
    options.unk = 3;
    options.unk_penalty = 1.0;
    assert_int_equal(vp_beam_create(&options, 1, &max_tokens, &beam, NULL),
                     VP_OK);
    assert_int_equal(vp_beam_step(beam, logits, next, NULL), VP_OK);
    assert_int_equal(next[0].token, 2);
    assert_int_equal(next[1].token, 4);
    assert_int_equal(next[0].parent, 0);
    assert_int_equal(next[1].parent, 0);
    /* Candidates (row, id): 0 EOS, 0 2, 0 4, 1 EOS. The first EOS is a result;
     * the second is not among the best BEAMS candidates. */
    assert_int_equal(vp_beam_step(beam, logits, next, NULL), VP_OK);
    assert_int_equal(vp_beam_n_results(beam, 0), 1);
    assert_int_equal(next[0].token, 2);
    assert_int_equal(next[1].token, 4);
    assert_int_equal(next[0].parent, 0);
    assert_int_equal(next[1].parent, 0);
    vp_beam_free(beam);
}

/* Makes `n_steps` steps with the same logits in all rows of two beams. */
static void repeat_steps(const struct vp_beam_options *options, int max_tokens,
                         const float *row, int n_steps,
                         struct vp_beam_row next[2], struct vp_beam **beam_out)
{
    float logits[2 * N_IDS];

    assert_int_equal(options->n_beams, 2);
    for (int i = 0; i < 2 * options->n_ids; i++)
        logits[i] = row[i % options->n_ids];
    assert_int_equal(vp_beam_create(options, 1, &max_tokens, beam_out, NULL),
                     VP_OK);
    for (int i = 0; i < n_steps; i++) {
        assert_false(vp_beam_is_done(*beam_out));
        assert_int_equal(vp_beam_step(*beam_out, logits, next, NULL), VP_OK);
    }
}

/* The ids are EOS, a, and one that is never chosen. After two steps `EOS` and
 * `a EOS` are results, and `a a` runs on with a larger sum than `a EOS`. With
 * length penalty -1 the running score beats the worst result at the current
 * length 2, but would not at max_tokens 16: the current length counts. */
static void test_when_a_full_sentence_ends(void **state)
{
    static const float logits[3] = { 4.9f, 5.0f, -20.0f };
    static const struct {
        enum vp_beam_rule rule;
        enum vp_beam_stop stop;
        double length_penalty;
        bool done;
    } cases[] = {
        { VP_BEAM_FAIRSEQ, VP_BEAM_STOP_NO_GAIN, 1.0, true },
        { VP_BEAM_HF, VP_BEAM_STOP_FULL, 1.0, true },
        { VP_BEAM_HF, VP_BEAM_STOP_NO_GAIN, 1.0, false },
        { VP_BEAM_HF, VP_BEAM_STOP_NO_GAIN, -1.0, false },
        { VP_BEAM_HF, VP_BEAM_STOP_NEVER, 1.0, false },
        { VP_BEAM_HF, VP_BEAM_STOP_NEVER, -1.0, false },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_beam_options options = vp_beam_defaults(cases[i].rule);
        struct vp_beam_row next[2];
        struct vp_beam *beam;

        options.n_ids = 3;
        options.n_beams = 2;
        options.n_eos = 1;
        options.min_tokens = 0;
        options.early_stopping = cases[i].stop;
        options.length_penalty = cases[i].length_penalty;
        repeat_steps(&options, 16, logits, 2, next, &beam);
        assert_int_equal(vp_beam_n_results(beam, 0), 2);
        assert_int_equal(next[0].token, 1);
        assert_int_equal(vp_beam_is_done(beam), cases[i].done);
        vp_beam_free(beam);
    }
}

/* Two ids end a sentence. In the second step the four best candidates are
 * `a EOS`, `a EOS2`, `a a` and `b EOS`; the second row becomes `a b`, the sixth
 * candidate. */
static void test_candidates_for_several_ends(void **state)
{
    static const float logits[4] = { 5.0f, 4.0f, 3.0f, 0.5f };
    struct vp_beam_options options = vp_beam_defaults(VP_BEAM_HF);
    struct vp_beam_row next[2];
    struct vp_beam *beam;

    (void)state;
    options.n_ids = 4;
    options.n_beams = 2;
    options.eos[1] = 1;
    options.n_eos = 2;
    options.early_stopping = VP_BEAM_STOP_NEVER;
    options.length_penalty = 2.0;
    repeat_steps(&options, 100, logits, 2, next, &beam);
    assert_int_equal(next[0].parent, 0);
    assert_int_equal(next[0].token, 2);
    assert_int_equal(next[1].parent, 0);
    assert_int_equal(next[1].token, 3);
    vp_beam_free(beam);
}

/* Two ids and four beams: rows without a candidate of their own are not
 * read. */
static void test_fewer_ids_than_beams(void **state)
{
    enum { BEAMS = 4, IDS = 2 };
    struct vp_beam_options options = vp_beam_defaults(VP_BEAM_HF);
    float logits[BEAMS * IDS];
    struct vp_beam_row next[BEAMS];
    struct vp_beam *beam;
    int max_tokens = 5, n;
    int32_t ids[5];
    double score;

    (void)state;
    options.n_ids = IDS;
    options.n_beams = BEAMS;
    options.eos[0] = 0;
    options.n_eos = 1;
    options.early_stopping = VP_BEAM_STOP_FULL;
    assert_int_equal(vp_beam_create(&options, 1, &max_tokens, &beam, NULL),
                     VP_OK);
    for (int i = 0; i < BEAMS * IDS; i++)
        logits[i] = i < IDS ? 0.0f : NAN;
    for (int step = 0; step < 4; step++) {
        assert_false(vp_beam_is_done(beam));
        assert_int_equal(vp_beam_step(beam, logits, next, NULL), VP_OK);
        for (int row = 0; row < BEAMS; row++) {
            assert_int_equal(next[row].parent, 0);
            assert_int_equal(next[row].token, 1);
        }
    }
    /* There are four results; the sum of each is -log(2) times its length. */
    assert_true(vp_beam_is_done(beam));
    assert_int_equal(vp_beam_n_results(beam, 0), 4);
    for (int i = 0; i < 4; i++) {
        vp_beam_result(beam, 0, i, ids, &n, &score);
        assert_int_equal(ids[n - 1], 0);
        assert_true(fabs(score + log(2.0)) < 1e-12);
    }
    vp_beam_free(beam);
}

/* EOS is the only id and is not allowed yet: the search ends without a
 * result. */
static void test_no_id_to_continue_with(void **state)
{
    struct vp_beam_options options = vp_beam_defaults(VP_BEAM_FAIRSEQ);
    static const float logits[2];
    struct vp_beam_row next[2];
    struct vp_beam *beam;
    int max_tokens = 3;

    (void)state;
    options.n_ids = 1;
    options.n_beams = 2;
    options.eos[0] = 0;
    options.n_eos = 1;
    assert_int_equal(vp_beam_create(&options, 1, &max_tokens, &beam, NULL),
                     VP_OK);
    assert_int_equal(vp_beam_step(beam, logits, next, NULL), VP_OK);
    assert_true(vp_beam_is_done(beam));
    assert_int_equal(vp_beam_n_results(beam, 0), 0);
    assert_int_equal(next[1].parent, 0);
    vp_beam_free(beam);
}

/* A constant added to all logits of a row changes nothing, so log-probabilities
 * can be passed as logits. */
static void test_shifted_logits_give_the_same(void **state)
{
    struct toy toy = { .options = vp_beam_defaults(VP_BEAM_HF),
                       .n_sentences = 1,
                       .prompts = { 4711 },
                       .max_tokens = { 3 } };
    static const float shifts[] = { 0.0f, -100.0f, 1000.0f };
    struct hypothesis got[VP_COUNT_OF(shifts)];

    (void)state;
    toy.options.n_ids = N_IDS;
    toy.options.n_beams = 2;
    for (size_t k = 0; k < VP_COUNT_OF(shifts); k++) {
        struct vp_beam_row next[2];
        struct vp_beam *beam;

        assert_int_equal(
            vp_beam_create(&toy.options, 1, toy.max_tokens, &beam, NULL),
            VP_OK);
        toy_begin(&toy);
        while (!vp_beam_is_done(beam)) {
            toy_logits(&toy);
            for (int i = 0; i < 2 * N_IDS; i++)
                toy.logits[i] += shifts[k] * (float)(1 + i / N_IDS);
            assert_int_equal(vp_beam_step(beam, toy.logits, next, NULL), VP_OK);
            toy_follow(&toy, beam, next);
        }
        get_result(beam, 0, 0, &got[k]);
        assert_int_equal(got[k].n, 3);
        assert_memory_equal(got[k].ids, got[0].ids, 3 * sizeof(int32_t));
        assert_true(fabs(got[k].score - got[0].score) < 1e-9);
        vp_beam_free(beam);
    }
}

static void test_fairseq_limits(void **state)
{
    (void)state;
    assert_int_equal(vp_beam_fairseq_max_tokens(0.0, 200, 10, 1024), 201);
    assert_int_equal(vp_beam_fairseq_max_tokens(1.2, 10, 9, 1024), 21);
    assert_int_equal(vp_beam_fairseq_max_tokens(2.0, 0, 30, 50), 50);
    assert_int_equal(vp_beam_fairseq_max_tokens(1.0, 0, 49, 50), 50);
    assert_int_equal(vp_beam_fairseq_max_tokens(1.0, 0, 48, 50), 49);
    assert_int_equal(vp_beam_fairseq_max_tokens(1.0, 0, 50, 50), 50);
    assert_int_equal(vp_beam_fairseq_max_tokens(1e30, 0, 48, 50), 50);
}

/* ---- Refused logits and options ------------------------------------------ */

/* A step that failed on a logit changes nothing and can be repeated. */
static void test_logits_that_are_no_numbers(void **state)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    float logits[2 * 3] = { 0 };
    struct vp_beam_options options = vp_beam_defaults(VP_BEAM_HF);
    struct vp_beam_row next[2] = { { 7, 7 }, { 7, 7 } };
    struct vp_err err = { .text = "" };
    struct vp_beam *beam;
    int max_tokens[2] = { 1, 2 }, n;
    int32_t ids[2];
    double score;

    (void)state;
    options.n_ids = 3;
    assert_int_equal(vp_beam_create(&options, 2, max_tokens, &beam, &err),
                     VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++) {
        logits[5] = bad[i];
        assert_int_equal(vp_beam_step(beam, logits, next, &err),
                         VP_ERR_NONFINITE);
        assert_non_null(strstr(err.text, "id 2 in row 1"));
        assert_int_equal(next[0].token, 7);
        assert_false(vp_beam_sentence_is_done(beam, 0));
    }
    logits[5] = 1.0f;
    assert_int_equal(vp_beam_step(beam, logits, next, &err), VP_OK);
    assert_true(vp_beam_sentence_is_done(beam, 0));
    assert_int_equal(next[1].token, 2);
    /* The first sentence is done; its row is kept and not read any more. */
    logits[0] = NAN;
    assert_int_equal(vp_beam_step(beam, logits, next, &err), VP_OK);
    assert_int_equal(next[0].parent, 0);
    assert_int_equal(next[0].token, 0);
    vp_beam_result(beam, 0, 0, ids, &n, &score);
    assert_int_equal(n, 1);
    vp_beam_free(beam);
}

static const struct vp_beam_options valid = {
    .rule = VP_BEAM_FAIRSEQ,
    .n_ids = 9,
    .n_beams = 4,
    .length_penalty = 1.0,
    .min_tokens = 1,
    .eos = { 2 },
    .n_eos = 1,
    .pad = 1,
    .unk = 3,
    .forced_bos = 5,
};

/* Fails unless the options are refused because of `fields`, with a message that
 * begins with `text`. */
static void check_refused(const struct vp_beam_options *options,
                          const char *fields, const char *text)
{
    struct vp_err err = { .text = "" };

    assert_int_equal(vp_beam_check(options, &err), VP_ERR_INVALID);
    assert_string_equal(err.fields, fields);
    if (strncmp(err.text, text, strlen(text)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", err.text, text);
    assert_null(strchr(err.text, '\n'));
}

#define REFUSE(field, value, fields, text)        \
    do {                                          \
        struct vp_beam_options changed_ = valid;  \
        changed_.field = (value);                 \
        check_refused(&changed_, (fields), text); \
    } while (0)

static void test_options_that_are_refused(void **state)
{
    (void)state;
    assert_int_equal(vp_beam_check(&valid, NULL), VP_OK);
    REFUSE(n_ids, 0, "n_ids", "n_ids is 0");
    REFUSE(n_beams, 0, "n_beams", "n_beams is 0");
    REFUSE(n_beams, 1025, "n_beams", "n_beams is 1025");
    REFUSE(length_penalty, NAN, "length_penalty", "length_penalty is");
    REFUSE(unk_penalty, INFINITY, "unk_penalty", "unk_penalty is");
    REFUSE(min_tokens, -1, "min_tokens", "min_tokens is -1");
    REFUSE(n_eos, 0, "n_eos", "n_eos is 0");
    REFUSE(n_eos, 2, "n_eos", "n_eos is 2");
    REFUSE(eos[0], -1, "eos", "eos is -1");
    REFUSE(eos[0], 9, "eos", "eos is 9");
    REFUSE(pad, 9, "pad", "pad is 9");
    REFUSE(pad, 2, "pad eos", "pad and eos are both 2");
    REFUSE(unk, -2, "unk", "unk is -2");
    REFUSE(forced_bos, 9, "forced_bos", "forced_bos is 9");
    REFUSE(forced_bos, 2, "forced_bos eos", "forced_bos and eos are both 2");
}

static void test_lengths_that_are_refused(void **state)
{
    static const int none[2] = { 2, 0 }, one[2] = { 2, 1 };
    struct vp_beam_options options = valid;
    struct vp_beam *beam = NULL;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_beam_create(&options, 0, one, &beam, &err),
                     VP_ERR_INVALID);
    /* fairseq needs at least one token before EOS. */
    assert_int_equal(vp_beam_create(&options, 2, one, &beam, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "max_tokens of sentence 1 is 1; give 2 or more");
    options.rule = VP_BEAM_HF;
    assert_int_equal(vp_beam_create(&options, 2, none, &beam, &err),
                     VP_ERR_INVALID);
    options.n_beams = 0;
    assert_int_equal(vp_beam_create(&options, 2, one, &beam, &err),
                     VP_ERR_INVALID);
    assert_null(beam);
    options.n_beams = 4;
    assert_int_equal(vp_beam_create(&options, 2, one, &beam, &err), VP_OK);
    vp_beam_free(beam);
    vp_beam_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored_searches),
        cmocka_unit_test(test_one_beam_is_greedy),
        cmocka_unit_test(test_equal_sums_in_order_of_rows_and_ids),
        cmocka_unit_test(test_when_a_full_sentence_ends),
        cmocka_unit_test(test_candidates_for_several_ends),
        cmocka_unit_test(test_fewer_ids_than_beams),
        cmocka_unit_test(test_no_id_to_continue_with),
        cmocka_unit_test(test_shifted_logits_give_the_same),
        cmocka_unit_test(test_fairseq_limits),
        cmocka_unit_test(test_logits_that_are_no_numbers),
        cmocka_unit_test(test_options_that_are_refused),
        cmocka_unit_test(test_lengths_that_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
