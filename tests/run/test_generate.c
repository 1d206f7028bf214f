/* Generated ids equal those of transformers for any partition and batch size,
 * texts end for the right reason, and BERT fills its gaps. */
#include "hf/generation.h"
#include "lib/modellib.h"
#include "lib/removelib.h"
#include "run/fill.h"
#include "run/generate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_TEXTS = 4, MAX_IDS = 160 };

/* ---- Collecting texts --------------------------------------------------- */

struct texts {
    int32_t ids[MAX_TEXTS][MAX_IDS];
    int n[MAX_TEXTS];
    enum vp_text_end why[MAX_TEXTS];
    int n_ended;
    int32_t stop_at; /* -1: no stop */
};

static enum vp_status take_token(void *ctx, int64_t k, int32_t id,
                                 bool *stop_out, struct vp_err *err)
{
    struct texts *texts = ctx;

    (void)err;
    assert_in_range(texts->n[k], 0, MAX_IDS - 1);
    texts->ids[k][texts->n[k]++] = id;
    *stop_out = id == texts->stop_at;
    return VP_OK;
}

static enum vp_status take_end(void *ctx, int64_t k, enum vp_text_end why,
                               struct vp_err *err)
{
    struct texts *texts = ctx;

    (void)err;
    texts->why[k] = why;
    texts->n_ended++;
    return VP_OK;
}

/* Generates with a model. `sets` end with NULL. Fills in model and sink of
 * `with`. */
static enum vp_status generate(const char *path, const char *const *sets,
                               struct vp_generate_config *with,
                               struct texts *out, struct vp_err *err)
{
    struct model model;
    enum vp_status st;

    open_model(path, sets, &model);
    with->config = &model.config;
    with->source = model.source;
    with->sink = (struct vp_text_sink){ out, take_token, take_end };
    with->notice = ignore;
    st = vp_generate(with, err);
    close_model(&model);
    return st;
}

static void must_generate(const char *const *sets,
                          struct vp_generate_config *with, struct texts *out)
{
    struct vp_err err = { .text = "" };

    if (generate(golden("logits/gpt2"), sets, with, out, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(out->n_ended, with->n_prompts);
}

static const int32_t short_ids[] = { 37 }, long_ids[] = { 21, 10, 26 };
static const struct vp_sequence prompts[] = {
    { .ids = short_ids, .n_ids = 1 },
    { .ids = long_ids, .n_ids = 3 },
    { .ids = short_ids, .n_ids = 1 },
};

static struct vp_generate_config greedy(int64_t n_prompts, int64_t max_tokens)
{
    return (struct vp_generate_config){ .prompts = prompts,
                                        .n_prompts = n_prompts,
                                        .max_tokens = max_tokens,
                                        .sampling = VP_SAMPLE_GREEDY };
}

/* ---- Generated ids ------------------------------------------------------ */

/* The expected ids are lines of generate.txt. The texts grow from one program
 * length to the next. */
static void ids_are_those_of_transformers(void **state)
{
    static const int32_t want[2][8] = { { 27, 20, 20, 35, 20, 20, 35, 35 },
                                        { 36, 35, 20, 20, 35, 35, 35, 35 } };
    static const char *const sets[][3] = { { NULL },
                                           { "stages=2" },
                                           { "stages=4", "batch_size=1" },
                                           { "batch_size=2" } };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sets); i++) {
        struct vp_generate_config with = greedy(3, 50);
        struct texts texts = { .stop_at = -1 };

        must_generate(sets[i], &with, &texts);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(texts.n[k], 50);
            assert_int_equal(texts.why[k], VP_TEXT_END_LENGTH);
            assert_memory_equal(texts.ids[k], want[k % 2], sizeof(want[0]));
        }
        assert_memory_equal(texts.ids[0], texts.ids[2], sizeof(texts.ids[0]));
    }
}

/* A cache changes no id, of greedy texts and of drawn ones. A text that waits
 * for the line of another one begins later and has the same ids. */
static void a_cache_changes_no_id(void **state)
{
    static const char *const sets[][4] = {
        { NULL },
        { "batch_size=1" },
        { "batch_size=2" },
        { "stages=2", "batch_size=1" },
        { "stages=4", "batch_size=2" },
    };

    (void)state;
    for (int draws = 0; draws < 2; draws++) {
        struct texts want = { .stop_at = -1 };
        struct vp_generate_config whole = greedy(3, 100);

        whole.no_cache = true;
        whole.sampling.temperature = draws;
        whole.seed = 5;
        must_generate(NULL, &whole, &want);
        for (size_t i = 0; i < VP_COUNT_OF(sets); i++) {
            struct vp_generate_config with = whole;
            struct texts texts = { .stop_at = -1 };

            with.no_cache = false;
            must_generate(sets[i], &with, &texts);
            assert_memory_equal(texts.ids, want.ids, sizeof(want.ids));
        }
    }
}

/* Drawn texts, which show small differences, are the same for every number of
 * stages and beside other texts. On a GPU this is also tested in bf16. */
static void stages_and_neighbours_change_nothing(void **state)
{
    static const char *const precisions[] = { "precision=fp32",
                                              "precision=bf16" };
    static const char *const stages[] = { "stages=1", "stages=2", "stages=4" };
    static const struct vp_sequence others[] = {
        { .ids = short_ids, .n_ids = 1 },
        { .ids = short_ids, .n_ids = 1 },
        { .ids = long_ids, .n_ids = 2 },
    };
    size_t n_precisions = getenv("VP_TEST_DEVICE") ? 2 : 1;

    (void)state;
    for (size_t p = 0; p < n_precisions; p++) {
        struct texts want = { .stop_at = -1 };

        for (size_t i = 0; i <= VP_COUNT_OF(stages); i++) {
            const char *const sets[] = { precisions[p], "batch_size=2",
                                         stages[i % VP_COUNT_OF(stages)],
                                         NULL };
            struct vp_generate_config with = greedy(3, 60);
            struct texts texts = { .stop_at = -1 };

            with.sampling.temperature = 1.0;
            if (i == VP_COUNT_OF(stages))
                with.prompts = others;
            must_generate(sets, &with, &texts);
            if (i == 0)
                want = texts;
            assert_memory_equal(texts.ids, want.ids,
                                with.prompts == others ? sizeof(want.ids[0])
                                                       : sizeof(want.ids));
        }
    }
}

/* The model has two layers with keys and values of 16 floats. A line has
 * positions for the longest text without its last id. */
static void bytes_of_the_cache_are_told(void **state)
{
    static const struct {
        const char *sets[3];
        int64_t n_lines;
    } cases[] = { { { "batch_size=8" }, 3 },
                  { { "batch_size=1" }, 1 },
                  { { "batch_size=1", "stages=2" }, 2 },
                  { { "batch_size=2", "stages=4" }, 4 } };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_generate_stats stats;
        struct vp_generate_config with = greedy(3, 10);
        struct texts texts = { .stop_at = -1 };

        with.stats_out = &stats;
        must_generate(cases[i].sets, &with, &texts);
        assert_int_equal(stats.cache_bytes,
                         cases[i].n_lines * 12 * 2 * 16 * 4 * 2);
        assert_int_equal(stats.n_prompt_ids, 5);
        assert_in_range(stats.n_new_ids, 1, 27);
        assert_true(stats.prompt_seconds > 0.0 && stats.new_seconds > 0.0);
        with.no_cache = true;
        memset(&texts, 0, sizeof(texts));
        must_generate(cases[i].sets, &with, &texts);
        assert_int_equal(stats.cache_bytes, 0);
        assert_int_equal(stats.n_new_ids, 30);
    }
}

static void a_cache_too_large_is_refused(void **state)
{
    static const char *const sets[] = { "memory_limit=120000", NULL };
    struct vp_generate_config with = greedy(3, 100);
    struct texts texts = { .stop_at = -1 };
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(generate(golden("logits/gpt2"), sets, &with, &texts, &err),
                     VP_ERR_INVALID);
    if (!strstr(err.text, "cache 76.5 KiB"))
        fail_msg("%s", err.text);
}

/* Text 0 ends before text 1, which continues as if it were alone. */
static void texts_end_for_themselves(void **state)
{
    static const int32_t ends[] = { 1, 27 };
    struct vp_generate_config with = greedy(2, 8), alone = greedy(2, 8);
    struct texts texts = { .stop_at = 20 }, all = { .stop_at = -1 };

    (void)state;
    must_generate(NULL, &alone, &all);
    with.end_ids = ends;
    with.n_end_ids = 2;
    must_generate(NULL, &with, &texts);
    assert_int_equal(texts.why[0], VP_TEXT_END_ID);
    assert_int_equal(texts.n[0], 1);
    assert_int_equal(texts.why[1], VP_TEXT_END_STOPPED);
    assert_int_equal(texts.n[1], 3);
    assert_memory_equal(texts.ids[1], all.ids[1], 3 * sizeof(int32_t));
}

static void positions_end_a_text(void **state)
{
    static const int64_t lengths[] = { 120, 128 };
    int32_t ids[128];

    (void)state;
    for (int i = 0; i < 128; i++)
        ids[i] = 3 + i % 30;
    for (size_t i = 0; i < VP_COUNT_OF(lengths); i++) {
        const struct vp_sequence prompt = { .ids = ids, .n_ids = lengths[i] };
        struct vp_generate_config with = greedy(1, 129 - lengths[i]);
        struct texts texts = { .stop_at = -1 }, more = { .stop_at = -1 };

        with.prompts = &prompt;
        must_generate(NULL, &with, &texts);
        assert_int_equal(texts.n[0], 129 - lengths[i]);
        assert_int_equal(texts.why[0], VP_TEXT_END_LENGTH);
        with.max_tokens = INT64_MAX / 2;
        must_generate(NULL, &with, &more);
        assert_int_equal(more.n[0], texts.n[0]);
        assert_int_equal(more.why[0], VP_TEXT_END_POSITIONS);
        assert_memory_equal(more.ids, texts.ids, sizeof(more.ids));
    }
}

static void draws_have_a_seed_a_text_and_a_position(void **state)
{
    static const char *const sets[][3] = { { NULL },
                                           { "batch_size=1", "stages=2" } };
    struct texts texts[3] = { { .stop_at = -1 },
                              { .stop_at = -1 },
                              { .stop_at = -1 } };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct vp_generate_config with = greedy(3, 40);

        with.sampling.temperature = 1e6; /* the draw alone decides */
        with.seed = i == 2;
        must_generate(sets[i % 2], &with, &texts[i]);
    }
    assert_memory_equal(texts[0].ids, texts[1].ids, sizeof(texts[0].ids));
    assert_memory_not_equal(texts[0].ids, texts[2].ids, sizeof(texts[0].ids));
    assert_memory_not_equal(texts[0].ids[0], texts[0].ids[2],
                            sizeof(texts[0].ids[0]));
    assert_memory_not_equal(texts[0].ids[0], texts[0].ids[0] + 1,
                            39 * sizeof(int32_t));
}

/* The repetition penalty counts ids of the prompt and of the output. */
static void used_ids_become_less_likely(void **state)
{
    struct vp_generate_config with = greedy(2, 30);
    struct texts texts = { .stop_at = -1 };

    (void)state;
    with.sampling.repetition_penalty = 1e6;
    must_generate(NULL, &with, &texts);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 10; i++)
            for (int j = 0; j < i; j++)
                assert_int_not_equal(texts.ids[k][i], texts.ids[k][j]);
}

static void bad_requests_are_refused(void **state)
{
    static const int32_t bad_ids[] = { 40 };
    static const struct vp_sequence bad = { .ids = bad_ids, .n_ids = 1 };
    struct vp_generate_config cases[] = { greedy(1, 0), greedy(0, 1),
                                          greedy(1, 1), greedy(1, 1),
                                          greedy(1, 1) };
    static const char *const says[] = { "nothing to generate",
                                        "nothing to generate",
                                        "40 is no id of the model",
                                        "temperature is -1",
                                        "bert model cannot continue texts" };

    (void)state;
    cases[2].prompts = &bad;
    cases[3].sampling.temperature = -1.0;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct texts texts = { .stop_at = -1 };
        struct vp_err err = { .text = "" };

        assert_int_equal(
            generate(golden(i == 4 ? "logits/bert" : "logits/gpt2"), NULL,
                     &cases[i], &texts, &err),
            i == 4 ? VP_ERR_UNSUPPORTED : VP_ERR_INVALID);
        if (!strstr(err.text, says[i]))
            fail_msg("%s", err.text);
    }
}

/* ---- Gaps of BERT ------------------------------------------------------- */

/* The expected ids and probabilities are those of fill.txt. */
static void gaps_are_filled_as_by_transformers(void **state)
{
    static const int32_t two_gaps[] = { 2, 7, 4, 35, 4, 3 };
    static const int32_t one_gap[] = { 2, 4, 3 };
    static const struct vp_sequence sequences[] = {
        { .ids = one_gap, .n_ids = 3 }, { .ids = two_gaps, .n_ids = 6 }
    };
    static const struct vp_sample_candidate want[2][2] = {
        { { .id = 26, .probability = 0.0997 },
          { .id = 13, .probability = 0.0713 } },
        { { .id = 0, .probability = 0.0826 },
          { .id = 26, .probability = 0.0702 } },
    };
    static const char *const sets[] = { "batch_size=1", "batch_size=2" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct vp_fill_config with = { .sequences = sequences,
                                       .n_sequences = 2,
                                       .mask = 4,
                                       .notice = ignore };
        struct vp_err err = { .text = "" };
        struct vp_model_source *source;
        struct vp_filling *found;
        struct vp_config config;
        int64_t n;

        if (vp_model_source_open(golden("logits/bert"), NULL, NULL, &source,
                                 &err) != VP_OK ||
            vp_model_source_config(source, &sets[i], 1, &config, &err) != VP_OK)
            fail_msg("%s", err.text);
        with.config = &config;
        with.source = source;
        if (vp_fill(&with, &found, &n, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_int_equal(n, 3);
        for (int g = 0; g < 2; g++) {
            const struct vp_filling *gap = &found[1 + g];

            assert_int_equal(gap->sequence, 1);
            assert_int_equal(gap->position, 2 + 2 * g);
            assert_int_equal(gap->n, VP_FILL_BEST);
            for (int c = 0; c < 2; c++) {
                assert_int_equal(gap->best[c].id, want[g][c].id);
                assert_true(fabs(gap->best[c].probability -
                                 want[g][c].probability) < 1e-4);
            }
        }
        free(found);
        with.mask = 5;
        assert_int_equal(vp_fill(&with, &found, &n, &err), VP_ERR_INVALID);
        assert_non_null(strstr(err.text, "sequence 1 has no gap"));
        vp_config_release(&config);
        vp_model_source_close(source);
    }
}

/* ---- Ids that end a text ------------------------------------------------ */

static char root[64];

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void ends_are_read(void **state)
{
    static const struct {
        const char *generation, *config;
        int n;
        int32_t first, last;
    } cases[] = {
        { "{}", "{\"eos_token_id\": 7}", 1, 7, 7 },
        { "{\"eos_token_id\": 8}", "{\"eos_token_id\": 7}", 1, 8, 8 },
        { "{\"eos_token_id\": [8, 9]}", "{\"eos_token_id\": 7}", 2, 8, 9 },
        { "{\"eos_token_id\": null}", "{}", 0, 0, 0 },
        { "{\"eos_token_id\": -1}", "{}", -1, 0, 0 },
        { "{\"eos_token_id\": [[1]]}", "{}", -1, 0, 0 },
        { "{\"eos_token_id\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}", "{}", -1,
          0, 0 },
        { "{", "{}", -1, 0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_hf_end_ids found = { .n = -1 };
        struct vp_err err = { .text = "" };
        enum vp_status st;

        write_file("generation_config.json", cases[i].generation);
        write_file("config.json", cases[i].config);
        st = vp_hf_read_end_ids(root, &found, &err);
        assert_int_equal(st == VP_OK, cases[i].n >= 0);
        assert_int_equal(found.n, cases[i].n);
        if (found.n > 0) {
            assert_int_equal(found.at[0], cases[i].first);
            assert_int_equal(found.at[found.n - 1], cases[i].last);
        }
    }
}

/* ---- Set-up ------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/vpipe-generate-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return remove_tree(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_transformers),
        cmocka_unit_test(a_cache_changes_no_id),
        cmocka_unit_test(stages_and_neighbours_change_nothing),
        cmocka_unit_test(bytes_of_the_cache_are_told),
        cmocka_unit_test(a_cache_too_large_is_refused),
        cmocka_unit_test(texts_end_for_themselves),
        cmocka_unit_test(positions_end_a_text),
        cmocka_unit_test(draws_have_a_seed_a_text_and_a_position),
        cmocka_unit_test(used_ids_become_less_likely),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(gaps_are_filled_as_by_transformers),
        cmocka_unit_test(ends_are_read),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
