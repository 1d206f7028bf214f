/* Sampling keeps the same ids as the filters of transformers, obeys each rule
 * in a table of literal cases, and draws with the exact probabilities. */
#include "decode/sample.h"

#include "lib/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IDS = 1024 };

static const struct vp_sample_options plain = {
    .repetition_penalty = 1.0, .temperature = 1.0, .top_k = 0, .top_p = 1.0
};

/* Returns the candidates in a buffer of exactly n_ids entries, so that a
 * sanitizer sees an overrun. The caller frees it. */
static struct vp_sample_candidate *filter(
    const struct vp_sample_options *options, const float *logits, int n_ids,
    const int32_t *history, int n_history, int *n_out)
{
    struct vp_sample_input input = { .logits = logits,
                                     .n_ids = n_ids,
                                     .history = history,
                                     .n_history = n_history };
    struct vp_sample_candidate *out = malloc((size_t)n_ids * sizeof(*out));
    struct vp_err err = { .text = "" };

    assert_non_null(out);
    assert_int_equal(vp_sample_check(options, &err), VP_OK);
    if (vp_sample_filter(options, &input, out, n_out, &err) != VP_OK)
        fail_msg("%s", err.text);
    return out;
}

/* ---- Comparison with transformers ---------------------------------------- */

static void check_order(const struct vp_sample_candidate *got, int n)
{
    for (int i = 1; i < n; i++)
        assert_true(
            got[i - 1].score > got[i].score ||
            (got[i - 1].score == got[i].score && got[i - 1].id < got[i].id));
}

/* The stored probabilities were computed from scores in float. Rounding a score
 * of about 20 changes a probability by up to 1e-5. */
static void check_case(const struct golden *gold, int number)
{
    char name[32];
    int64_t n_ids, n_history, n_kept;
    const float *logits, *values, *want;
    const int32_t *history, *ids;
    struct vp_sample_options options;
    struct vp_sample_candidate *got;
    double probability[MOST_IDS] = { 0 };
    int n;

    snprintf(name, sizeof(name), "%d.logits", number);
    logits = golden_f32(gold, name, NULL, &n_ids);
    assert_true(n_ids <= MOST_IDS);
    snprintf(name, sizeof(name), "%d.history", number);
    history = golden_i32(gold, name, NULL, &n_history);
    snprintf(name, sizeof(name), "%d.options", number);
    values = golden_f32(gold, name, NULL, NULL);
    snprintf(name, sizeof(name), "%d.ids", number);
    ids = golden_i32(gold, name, NULL, &n_kept);
    snprintf(name, sizeof(name), "%d.probabilities", number);
    want = golden_f32(gold, name, NULL, NULL);

    options = (struct vp_sample_options){
        .repetition_penalty = (double)values[0],
        .temperature = (double)values[1],
        .top_k = (int)values[2],
        .top_p = (double)values[3]
    };
    got = filter(&options, logits, (int)n_ids, history, (int)n_history, &n);
    if (n != (int)n_kept)
        fail_msg("case %d: %d ids, not %d", number, n, (int)n_kept);
    for (int i = 0; i < n; i++)
        probability[got[i].id] = got[i].probability;
    for (int i = 0; i < n; i++)
        if (fabs(probability[ids[i]] - (double)want[i]) > 1e-5)
            fail_msg("case %d: id %d has %g, not %g", number, (int)ids[i],
                     probability[ids[i]], (double)want[i]);
    if (options.top_k > 0 || options.top_p < 1.0)
        check_order(got, n);
    free(got);
}

static void test_filtered_sets_are_those_of_transformers(void **state)
{
    struct golden *gold = golden_open(VP_SOURCE_DIR "/tests/golden/sample");
    int n_cases = (gold->n_tensors - 1) / 5;

    (void)state;
    assert_int_equal(n_cases, 96);
    for (int i = 0; i < n_cases; i++)
        check_case(gold, i);
    golden_close(gold);
}

/* ---- A table of literal cases -------------------------------------------- */

enum { MOST = 6 };
static const struct table {
    const char *name;
    struct vp_sample_options options;
    float logits[MOST];
    int n_ids;
    int32_t history[MOST];
    int n_history;
    int32_t want[MOST];
    int n_want;
} tables[] = {
    { "greedy takes the lowest of equal ids",
      { 1.0, 0.0, 0, 1.0 },
      { 1, 3, 2, 3 },
      4,
      { 0 },
      0,
      { 1 },
      1 },
    { "greedy ignores the other options",
      { 1.0, 0.0, 3, 0.9 },
      { 1, 2, 3, 4 },
      4,
      { 0 },
      0,
      { 3 },
      1 },
    { "greedy after the penalty: 4 / 2 < 3",
      { 2.0, 0.0, 0, 1.0 },
      { 3, 4, 1 },
      3,
      { 1 },
      1,
      { 0 },
      1 },
    { "negative logits are multiplied: -1 * 2 < -1.5",
      { 2.0, 0.0, 0, 1.0 },
      { -1, -1.5f },
      2,
      { 0 },
      1,
      { 1 },
      1 },
    { "an id that occurs twice: 4 / 2 > 1.5, 4 / 4 < 1.5",
      { 2.0, 0.0, 0, 1.0 },
      { 1.5f, 4 },
      2,
      { 1, 1, 1 },
      3,
      { 1 },
      1 },
    { "ids outside of the vocabulary",
      { 2.0, 0.0, 0, 1.0 },
      { 1, 2 },
      2,
      { -1, 2, 99 },
      3,
      { 1 },
      1 },
    { "top-k", { 1.0, 1.0, 2, 1.0 }, { 1, 4, 2, 3 }, 4, { 0 }, 0, { 1, 3 }, 2 },
    { "top-k keeps equal scores",
      { 1.0, 1.0, 2, 1.0 },
      { 2, 4, 2, 2, 1 },
      5,
      { 0 },
      0,
      { 1, 0, 2, 3 },
      4 },
    { "top-k of more than there are",
      { 1.0, 1.0, 9, 1.0 },
      { 1, 2 },
      2,
      { 0 },
      0,
      { 1, 0 },
      2 },
    { "top-p drops what reaches 1 - p: 1/4 <= 1/4",
      { 1.0, 1.0, 0, 0.75 },
      { 0, 0, 0, 0 },
      4,
      { 0 },
      0,
      { 0, 1, 2 },
      3 },
    { "top-p keeps what passes 1 - p",
      { 1.0, 1.0, 0, 0.76 },
      { 0, 0, 0, 0 },
      4,
      { 0 },
      0,
      { 0, 1, 2, 3 },
      4 },
    { "top-p leaves one",
      { 1.0, 1.0, 0, 0.0 },
      { 1, 2, 2 },
      3,
      { 0 },
      0,
      { 1 },
      1 },
    /* top-p 0.5 alone would keep more than one of the five ids; of the two that
     * top-k leaves it keeps one. */
    { "top-p counts what top-k left",
      { 1.0, 1.0, 2, 0.5 },
      { 0, 0.5f, 0.25f, 0, 0 },
      5,
      { 0 },
      0,
      { 1 },
      1 },
    /* The first id has probability 0.73 at temperature 1, and 0.56 at 4. */
    { "top-p counts after the temperature",
      { 1.0, 4.0, 0, 0.6 },
      { 1, 0 },
      2,
      { 0 },
      0,
      { 0, 1 },
      2 },
    { "one id", { 1.0, 1.0, 0, 0.5 }, { 5 }, 1, { 0 }, 0, { 0 }, 1 },
    { "nothing is dropped, order of ids",
      { 1.0, 1.0, 0, 1.0 },
      { 1, 3, 2 },
      3,
      { 0 },
      0,
      { 0, 1, 2 },
      3 },
};

static void test_rules_one_by_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(tables); i++) {
        const struct table *t = &tables[i];
        struct vp_sample_candidate *got;
        double sum = 0.0;
        int n;

        got = filter(&t->options, t->logits, t->n_ids, t->history, t->n_history,
                     &n);
        if (n != t->n_want)
            fail_msg("%s: %d candidates", t->name, n);
        for (int k = 0; k < n; k++) {
            if (got[k].id != t->want[k])
                fail_msg("%s: candidate %d is %d", t->name, k, (int)got[k].id);
            sum += got[k].probability;
        }
        assert_true(fabs(sum - 1.0) < 1e-12);
        free(got);
    }
}

/* History ids just below and above the vocabulary change no score and touch no
 * memory beside the buffers. */
static void test_ids_outside_of_the_vocabulary(void **state)
{
    static const float logits[4] = { 8, 1, 2, 8 };
    static const int32_t history[] = { -1, 2 };
    struct vp_sample_input input = {
        .logits = &logits[1], .n_ids = 2, .history = history, .n_history = 2
    };
    struct vp_sample_options options = plain;
    struct vp_sample_candidate work[4] = { { .id = 0 } };
    int n;

    (void)state;
    options.repetition_penalty = 2.0;
    assert_int_equal(vp_sample_filter(&options, &input, &work[1], &n, NULL),
                     VP_OK);
    assert_int_equal(n, 2);
    assert_true(work[0].score == 0.0f && work[3].score == 0.0f);
    assert_true(work[1].score == 1.0f && work[2].score == 2.0f);
}

/* exp() of these logits overflows, or is 0 for all of them. */
static void test_large_logits(void **state)
{
    static const float at[] = { -3e38f, -1e4f, 1e4f, 3e38f };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(at); i++) {
        float logits[2] = { at[i], at[i] };
        struct vp_sample_candidate *got;
        int n;

        got = filter(&plain, logits, 2, NULL, 0, &n);
        assert_int_equal(n, 2);
        assert_true(got[0].probability == 0.5);
        free(got);
    }
}

/* ---- Random draws -------------------------------------------------------- */

/* With N equal probabilities the drawn id is the integer part of N * u.
 * make_sample.py computed it from the same key. */
static void test_draws_are_philox_of_their_names(void **state)
{
    static const uint64_t seeds[] = { 0, 5, (UINT64_C(1) << 63) + 12345 };
    static const uint64_t sequences[] = { 0, 1, (UINT64_C(1) << 40) + 7 };
    static struct vp_sample_candidate candidates[MOST_IDS];
    struct golden *gold = golden_open(VP_SOURCE_DIR "/tests/golden/sample");
    int64_t rows, cols;
    const int32_t *want = golden_i32(gold, "draws", &rows, &cols);

    (void)state;
    assert_int_equal(rows, VP_COUNT_OF(seeds) * VP_COUNT_OF(sequences));
    for (int i = 0; i < MOST_IDS; i++)
        candidates[i] = (struct vp_sample_candidate){
            .id = i, .probability = 1.0 / MOST_IDS
        };
    for (int64_t i = 0; i < rows * cols; i++) {
        size_t row = (size_t)(i / cols);
        struct vp_sample_key key = {
            .seed = seeds[row / VP_COUNT_OF(sequences)],
            .sequence = sequences[row % VP_COUNT_OF(sequences)],
            .position = (uint32_t)(i % cols)
        };

        assert_int_equal(vp_sample_draw(candidates, MOST_IDS, &key), want[i]);
    }
    golden_close(gold);
}

/* Returns Pearson's statistic of N_DRAWS draws that vary one part of the key: 0
 * the seed, 1 the sequence, 2 the position. */
enum { N_DRAWS = 40000 };

static double chi_square(const struct vp_sample_options *options,
                         const float *logits, const double *probability, int n,
                         int part)
{
    struct vp_sample_input input = { .logits = logits, .n_ids = n };
    struct vp_sample_candidate work[MOST];
    int count[MOST] = { 0 };
    double sum = 0.0;

    for (int i = 0; i < N_DRAWS; i++) {
        struct vp_sample_key key = { .seed = part == 0 ? (uint64_t)i : 11,
                                     .sequence = part == 1 ? (uint64_t)i : 22,
                                     .position = part == 2 ? (uint32_t)i : 33 };
        int32_t id = -1;

        assert_int_equal(vp_sample(options, &input, &key, work, &id, NULL),
                         VP_OK);
        assert_in_range(id, 0, n - 1);
        count[id]++;
    }
    for (int i = 0; i < n; i++) {
        double want = N_DRAWS * probability[i];

        if (probability[i] == 0.0)
            assert_int_equal(count[i], 0);
        else
            sum += (count[i] - want) * (count[i] - want) / want;
    }
    return sum;
}

/* The logits are the logarithms of 1, 2, 4, 8 and 5. The limits are the 99.9 %
 * quantiles of chi square with 4 and 2 degrees of freedom. The keys are fixed,
 * so the result never changes. */
static void test_frequencies_are_the_probabilities(void **state)
{
    static const double weight[] = { 1, 2, 4, 8, 5 };
    static const double all[] = { 0.05, 0.1, 0.2, 0.4, 0.25 };
    /* Temperature 0.5 squares the weights, and top-k leaves three. */
    static const double three[] = { 0, 0, 16.0 / 105, 64.0 / 105, 25.0 / 105 };
    struct vp_sample_options options = plain;
    float logits[5];

    (void)state;
    for (int i = 0; i < 5; i++)
        logits[i] = (float)log(weight[i]);
    for (int part = 0; part < 3; part++)
        assert_true(chi_square(&options, logits, all, 5, part) < 18.47);
    options.temperature = 0.5;
    options.top_k = 3;
    for (int part = 0; part < 3; part++)
        assert_true(chi_square(&options, logits, three, 5, part) < 13.82);
}

/* Greedy sampling returns the first of the largest logits, at any position and
 * for any size of the vocabulary. A logit that is not finite is found at any
 * position. */
static void test_most_likely_id(void **state)
{
    enum { LARGEST = 70 };
    struct vp_sample_options options = plain;
    struct vp_sample_candidate work[LARGEST];
    struct vp_sample_key key = { .seed = 1 };
    float logits[LARGEST];

    (void)state;
    options.temperature = 0.0;
    for (int n = 1; n <= LARGEST; n++)
        for (int at = 0; at < n; at++) {
            struct vp_sample_input input = { .logits = logits, .n_ids = n };
            int32_t id = -1;
            int n_left;

            for (int i = 0; i < n; i++)
                logits[i] = -3.0f + (float)(i * 7 % 5) * 0.25f;
            logits[at] = logits[at + (n - at) / 2] = -1.0f;
            assert_int_equal(
                vp_sample_filter(&options, &input, work, &n_left, NULL), VP_OK);
            assert_int_equal(work[0].id, at);
            assert_int_equal(vp_sample(&options, &input, &key, work, &id, NULL),
                             VP_OK);
            assert_int_equal(id, at);
            logits[at] = -INFINITY;
            assert_int_equal(vp_sample(&options, &input, &key, work, &id, NULL),
                             VP_ERR_NONFINITE);
        }
}

/* ---- Refused logits and options ------------------------------------------ */

static void test_logits_that_are_no_numbers(void **state)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    struct vp_sample_candidate work[3];
    struct vp_sample_options options = plain;
    struct vp_err err = { .text = "" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++) {
        float logits[3] = { 1.0f, 2.0f, bad[i] };
        struct vp_sample_input input = { .logits = logits, .n_ids = 3 };
        struct vp_sample_key key = { .seed = 1 };
        int32_t id = 77;

        for (int greedy = 0; greedy < 2; greedy++) {
            options.temperature = greedy ? 0.0 : 1.0;
            assert_int_equal(vp_sample(&options, &input, &key, work, &id, &err),
                             VP_ERR_NONFINITE);
            assert_non_null(strstr(err.text, "id 2"));
            assert_int_equal(id, 77);
        }
    }
}

static void test_temperature_that_overflows(void **state)
{
    float logits[2] = { 1.0f, 3e38f };
    struct vp_sample_input input = { .logits = logits, .n_ids = 2 };
    struct vp_sample_candidate work[2];
    struct vp_sample_options options = plain;
    struct vp_err err = { .text = "" };
    int n = 77;

    (void)state;
    options.temperature = 0.1;
    assert_int_equal(vp_sample_filter(&options, &input, work, &n, &err),
                     VP_ERR_NONFINITE);
    assert_non_null(strstr(err.text, "temperature 0.1"));
    assert_int_equal(n, 77);
}

static void test_options_that_are_refused(void **state)
{
    static const struct {
        struct vp_sample_options options;
        const char *field;
    } cases[] = {
        { { 0.0, 1.0, 0, 1.0 }, "repetition_penalty" },
        { { -1.0, 1.0, 0, 1.0 }, "repetition_penalty" },
        { { NAN, 1.0, 0, 1.0 }, "repetition_penalty" },
        { { INFINITY, 1.0, 0, 1.0 }, "repetition_penalty" },
        { { 1.0, -0.1, 0, 1.0 }, "temperature" },
        { { 1.0, NAN, 0, 1.0 }, "temperature" },
        { { 1.0, INFINITY, 0, 1.0 }, "temperature" },
        { { 1.0, 1.0, -1, 1.0 }, "top_k" },
        { { 1.0, 1.0, 0, -0.1 }, "top_p" },
        { { 1.0, 1.0, 0, 1.1 }, "top_p" },
        { { 1.0, 1.0, 0, NAN }, "top_p" },
    };
    static const struct vp_sample_options greedy = VP_SAMPLE_GREEDY;
    struct vp_err err;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        assert_int_equal(vp_sample_check(&cases[i].options, &err),
                         VP_ERR_INVALID);
        assert_string_equal(err.fields, cases[i].field);
        assert_ptr_equal(strstr(err.text, cases[i].field), err.text);
        assert_null(strchr(err.text, '\n'));
    }
    assert_int_equal(vp_sample_check(&greedy, &err), VP_OK);
    assert_int_equal(vp_sample_check(&plain, &err), VP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filtered_sets_are_those_of_transformers),
        cmocka_unit_test(test_rules_one_by_one),
        cmocka_unit_test(test_ids_outside_of_the_vocabulary),
        cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_draws_are_philox_of_their_names),
        cmocka_unit_test(test_frequencies_are_the_probabilities),
        cmocka_unit_test(test_most_likely_id),
        cmocka_unit_test(test_logits_that_are_no_numbers),
        cmocka_unit_test(test_temperature_that_overflows),
        cmocka_unit_test(test_options_that_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
