/* Translations equal those of transformers and of a literal beam search for any
 * partition and batch size, in the order of the sentences. The folder of a
 * model sets the search. */
#include "lib/modellib.h"
#include "lib/removelib.h"
#include "run/model_text.h"
#include "run/translate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_SENTENCES = 8, MAX_IDS = 64, LINE = 1024, PER_GROUP = 3 };

static char root[64];

/* ---- Collecting translations -------------------------------------------- */

struct translations {
    int32_t ids[MAX_SENTENCES][MAX_IDS];
    int n_ids[MAX_SENTENCES];
    int64_t n;
};

static enum vp_status take(void *ctx, int64_t k,
                           const struct vp_translation *translation,
                           struct vp_err *err)
{
    struct translations *out = ctx;

    (void)err;
    assert_int_equal(k, out->n);
    assert_in_range(translation->n_ids, 0, MAX_IDS);
    memcpy(out->ids[k], translation->ids,
           (size_t)translation->n_ids * sizeof(**out->ids));
    out->n_ids[k] = translation->n_ids;
    out->n++;
    return VP_OK;
}

/* Translates with a model. `sets` end with NULL. Fills in model and sink of
 * `with`. */
static enum vp_status translate(const char *path, const char *const *sets,
                                struct vp_translate_config *with,
                                struct translations *out, struct vp_err *err)
{
    struct model model;
    enum vp_status st;

    open_model(path, sets, &model);
    *out = (struct translations){ .n = 0 };
    with->config = &model.config;
    with->source = model.source;
    with->sink = (struct vp_translation_sink){ out, take };
    with->notice = ignore;
    st = vp_translate(with, err);
    close_model(&model);
    return st;
}

/* ---- Stored searches ---------------------------------------------------- */

struct stored {
    struct vp_translation_search search;
    int32_t source[PER_GROUP][MAX_IDS], want[PER_GROUP][MAX_IDS];
    int n_source[PER_GROUP], n_want[PER_GROUP];
};

static int read_ids(const char *text, int32_t *out)
{
    char *end = NULL;
    int n = 0;

    for (; *text && *text != '\n'; text = end) {
        assert_in_range(n, 0, MAX_IDS - 1);
        out[n++] = (int32_t)strtol(text, &end, 10);
        assert_ptr_not_equal(text, end);
        end += *end == ',' || *end == ' ';
    }
    return n;
}

/* Reads sentence `k` of a group from a line of translate.txt. */
static void read_line(char *line, struct stored *out, int k)
{
    static const char *const stops[] = { [VP_BEAM_STOP_NO_GAIN] = "no_gain",
                                         [VP_BEAM_STOP_FULL] = "full",
                                         [VP_BEAM_STOP_NEVER] = "never" };
    char *field[8] = { line };
    struct vp_beam_options *beam = &out->search.beam;
    bool fairseq;

    for (int i = 1; i < 8; i++) {
        field[i] = strchr(field[i - 1], '|');
        assert_non_null(field[i]);
        *field[i]++ = '\0';
    }
    fairseq = strcmp(field[0], "fairseq") == 0;
    *beam = vp_beam_defaults(fairseq ? VP_BEAM_FAIRSEQ : VP_BEAM_HF);
    while (strcmp(field[1], stops[beam->early_stopping]) != 0)
        beam->early_stopping++;
    beam->n_beams = (int)strtol(field[2], NULL, 10);
    beam->length_penalty = strtod(field[3], NULL);
    out->search.max_tokens = strtol(field[4], NULL, 10);
    beam->forced_bos = (int32_t)strtol(field[5], NULL, 10);
    beam->pad = fairseq ? 1 : -1;
    beam->eos[0] = out->search.start = 2;
    beam->n_eos = 1;
    out->n_source[k] = read_ids(field[6], out->source[k]);
    out->n_want[k] = read_ids(field[7], out->want[k]);
}

static bool read_group(FILE *file, struct stored *out)
{
    char line[LINE];

    for (int k = 0; k < PER_GROUP; k++) {
        if (!fgets(line, sizeof(line), file))
            return false;
        read_line(line, out, k);
    }
    return true;
}

static void check_group(const struct stored *stored, const char *const *sets,
                        bool no_cache)
{
    struct vp_sequence sentences[PER_GROUP];
    struct vp_translate_config with = { .sentences = sentences,
                                        .n_sentences = PER_GROUP,
                                        .search = stored->search,
                                        .no_cache = no_cache };
    struct translations got;
    struct vp_err err = { .text = "" };

    for (int k = 0; k < PER_GROUP; k++)
        sentences[k] = (struct vp_sequence){ .ids = stored->source[k],
                                             .n_ids = stored->n_source[k] };
    if (translate(golden("translate/m2m"), sets, &with, &got, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(got.n, PER_GROUP);
    for (int k = 0; k < PER_GROUP; k++) {
        assert_int_equal(got.n_ids[k], stored->n_want[k]);
        assert_memory_equal(got.ids[k], stored->want[k],
                            (size_t)got.n_ids[k] * sizeof(int32_t));
    }
}

/* With a batch_size of 64 tokens a minibatch has one or two rows, so the beams
 * of a sentence are in several minibatches. All is done with and without a
 * cache. */
static void ids_are_those_of_transformers(void **state)
{
    static const char *const sets[][3] = { { NULL },
                                           { "stages=2", "batch_size=64" },
                                           { "stages=4" },
                                           { "batch_size=192" } };
    FILE *file = fopen(golden("translate.txt"), "r");
    struct stored stored;
    int n = 0;

    (void)state;
    assert_non_null(file);
    for (; read_group(file, &stored); n++)
        for (size_t i = 0; i < VP_COUNT_OF(sets); i++)
            for (int no_cache = 0; no_cache < 2; no_cache++)
                check_group(&stored, sets[i], no_cache > 0);
    assert_int_equal(n, 25);
    fclose(file);
}

/* ---- Several sentences -------------------------------------------------- */

static const int32_t words[] = { 9, 19, 9, 7, 2 };

static struct vp_translate_config greedy(const struct vp_sequence *sentences,
                                         int64_t n)
{
    struct vp_translate_config with = {
        .sentences = sentences,
        .n_sentences = n,
        .search = { .beam = vp_beam_defaults(VP_BEAM_HF),
                    .max_tokens = 40,
                    .start = 2 },
    };

    with.search.beam.eos[0] = 2;
    with.search.beam.n_eos = 1;
    return with;
}

/* Sentences are translated one at a time or all together. They are returned in
 * order, each with the result it has alone, for any mixture of lengths. */
static void sentences_keep_their_order(void **state)
{
    static const char *const sets[][2] = { { NULL }, { "batch_size=64" } };
    struct vp_sequence sentences[MAX_SENTENCES];
    struct vp_translate_config with = greedy(sentences, MAX_SENTENCES);
    struct translations all, one;
    struct vp_err err = { .text = "" };

    (void)state;
    for (int k = 0; k < MAX_SENTENCES; k++)
        sentences[k] = (struct vp_sequence){ .ids = words + k % 4,
                                             .n_ids = 5 - k % 4 };
    for (size_t i = 0; i < VP_COUNT_OF(sets); i++)
        for (int n_beams = 1; n_beams <= 10; n_beams += 9) {
            with.search.beam.n_beams = n_beams;
            assert_int_equal(
                translate(golden("translate/m2m"), sets[i], &with, &all, &err),
                VP_OK);
            assert_int_equal(all.n, MAX_SENTENCES);
            for (int k = 0; k < 4; k++) {
                struct vp_translate_config alone = greedy(&sentences[k], 1);

                alone.search = with.search;
                assert_int_equal(translate(golden("translate/m2m"), NULL,
                                           &alone, &one, &err),
                                 VP_OK);
                for (int j = k; j < MAX_SENTENCES; j += 4) {
                    assert_int_equal(all.n_ids[j], one.n_ids[0]);
                    assert_memory_equal(all.ids[j], one.ids[0],
                                        (size_t)one.n_ids[0] * 4);
                }
            }
        }
}

/* The model has 64 positions, enough for 64 new ids: the last id is no
 * input. */
static void positions_end_a_translation(void **state)
{
    struct vp_sequence sentence = { .ids = words, .n_ids = 5 };
    struct vp_translate_config with = greedy(&sentence, 1);
    struct translations got;
    struct vp_err err = { .text = "" };

    (void)state;
    with.search.beam.n_eos = 0;
    with.search.max_tokens = 1000;
    assert_int_equal(
        translate(golden("translate/m2m"), NULL, &with, &got, &err), VP_OK);
    assert_int_equal(got.n_ids[0], 64);
}

/* The cache has four beams of 20 positions and a source of 16: 96 positions
 * with keys and values of 32 floats, in one decoder layer. */
static void the_cache_is_planned(void **state)
{
    static const char *const sets[] = { "memory_limit=20000", NULL };
    struct vp_sequence sentence = { .ids = words, .n_ids = 5 };
    struct vp_translate_config with = greedy(&sentence, 1);
    struct translations got;
    struct vp_err err = { .text = "" };

    (void)state;
    with.search.beam.n_beams = 4;
    with.search.max_tokens = 20;
    assert_int_equal(
        translate(golden("translate/m2m"), sets, &with, &got, &err),
        VP_ERR_INVALID);
    if (!strstr(err.text, "cache 24 KiB"))
        fail_msg("%s", err.text);
    with.no_cache = true;
    assert_int_equal(
        translate(golden("translate/m2m"), sets, &with, &got, &err),
        VP_ERR_INVALID);
    assert_null(strstr(err.text, "cache"));
}

static void refuse(const char *model, const struct vp_translate_config *with,
                   enum vp_status want, const char *text)
{
    struct vp_translate_config copy = *with;
    struct translations got;
    struct vp_err err = { .text = "" };

    assert_int_equal(translate(golden(model), NULL, &copy, &got, &err), want);
    assert_string_equal(err.text, text);
}

static void bad_requests_are_refused(void **state)
{
    static const int32_t bad[] = { 5, 20, 2 };
    struct vp_sequence sentences[2] = { { .ids = words, .n_ids = 5 },
                                        { .ids = bad, .n_ids = 3 } };
    struct vp_translate_config with = greedy(sentences, 1);

    (void)state;
    refuse("logits/gpt2", &with, VP_ERR_UNSUPPORTED,
           "a gpt2 model cannot translate; use a translation model");
    refuse("logits/bert", &with, VP_ERR_UNSUPPORTED,
           "a bert model cannot translate; use a translation model");
    with.n_sentences = 2;
    refuse("translate/m2m", &with, VP_ERR_INVALID,
           "sequence 2: 20 is no id of the model; its ids are 0 to 19");
    sentences[1].n_ids = 0;
    refuse("translate/m2m", &with, VP_ERR_INVALID,
           "sequence 2 has 0 ids; the model takes 1 to 64");
    with.n_sentences = 0;
    refuse(
        "translate/m2m", &with, VP_ERR_INVALID,
        "there is nothing to translate; give a sentence and max_tokens of at "
        "least 1");
    with.n_sentences = 1;
    with.search.start = 20;
    refuse("translate/m2m", &with, VP_ERR_INVALID,
           "the decoder starts with 20, which is no id of the model; its ids "
           "are 0 to 19");
    with.search.start = 2;
    with.search.beam.forced_bos = 20;
    refuse("translate/m2m", &with, VP_ERR_INVALID,
           "forced_bos is 20; give an id of the vocabulary, from 0 to 19 (-1: "
           "none)");
}

/* ---- Settings in a folder ----------------------------------------------- */

static void write_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static enum vp_status read_search(const char *generation, const char *config,
                                  enum vp_beam_rule rule,
                                  struct vp_translation_search *out,
                                  struct vp_err *err)
{
    static const struct vp_model_config sizes = { .pad = 1 };

    write_file("generation_config.json", generation);
    write_file("config.json", config);
    return vp_translation_search_read(root, &sizes, rule, out, err);
}

static void searches_are_read(void **state)
{
    struct vp_translation_search got;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(
        read_search("{\"num_beams\": 5, \"early_stopping\": true, "
                    "\"max_length\": 200, \"eos_token_id\": [2, 7], "
                    "\"forced_bos_token_id\": null}",
                    "{\"num_beams\": 3, \"length_penalty\": 0.6, "
                    "\"forced_bos_token_id\": 9, "
                    "\"decoder_start_token_id\": 4}",
                    VP_BEAM_HF, &got, &err),
        VP_OK);
    assert_int_equal(got.beam.n_beams, 5);
    assert_true(got.beam.length_penalty == 0.6);
    assert_int_equal(got.beam.early_stopping, VP_BEAM_STOP_FULL);
    assert_int_equal(got.max_tokens, 199);
    assert_int_equal(got.beam.n_eos, 2);
    assert_int_equal(got.beam.eos[1], 7);
    assert_int_equal(got.beam.forced_bos, 9);
    assert_int_equal(got.beam.pad, -1);
    assert_int_equal(got.start, 4);

    assert_int_equal(read_search("{\"max_new_tokens\": 7, \"max_length\": 9, "
                                 "\"early_stopping\": \"never\"}",
                                 "{}", VP_BEAM_FAIRSEQ, &got, &err),
                     VP_OK);
    assert_int_equal(got.max_tokens, 7);
    assert_int_equal(got.beam.early_stopping, VP_BEAM_STOP_NEVER);
    assert_int_equal(got.beam.n_beams, 1);
    assert_int_equal(got.beam.eos[0], 2);
    assert_int_equal(got.beam.pad, 1);
    assert_int_equal(got.beam.min_tokens, 1);
    assert_int_equal(got.start, 2);
}

/* Without a folder, the search uses the ids of the training data's format. */
static void searches_have_defaults(void **state)
{
    static const struct vp_model_config bytes = { .pad = 0 },
                                        fairseq = { .pad = 1 };
    struct vp_translation_search got;

    (void)state;
    assert_int_equal(
        vp_translation_search_read(NULL, &bytes, VP_BEAM_HF, &got, NULL),
        VP_OK);
    assert_int_equal(got.start, 1);
    assert_int_equal(got.beam.eos[0], 2);
    assert_int_equal(got.beam.n_beams, 1);
    assert_int_equal(got.max_tokens, 201);
    assert_int_equal(
        vp_translation_search_read(NULL, &fairseq, VP_BEAM_HF, &got, NULL),
        VP_OK);
    assert_int_equal(got.start, 2);
    assert_int_equal(got.beam.eos[0], 2);
}

static void bad_searches_are_refused(void **state)
{
    static const struct {
        const char *generation, *text;
    } cases[] = {
        { "{\"num_beams\": 0}", "num_beams is not a number above 0" },
        { "{\"num_beams\": \"4\"}", "num_beams is not a number above 0" },
        { "{\"length_penalty\": true}", "length_penalty is not a number" },
        { "{\"early_stopping\": \"soon\"}",
          "early_stopping is not true, false or \"never\"" },
        { "{\"max_length\": 1}", "max_length is not a number above 0" },
        { "{\"forced_bos_token_id\": -5}", "forced_bos_token_id is not an id" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_translation_search got;
        struct vp_err err = { .text = "" };
        char want[256];

        assert_int_equal(
            read_search(cases[i].generation, "{}", VP_BEAM_HF, &got, &err),
            VP_ERR_INVALID);
        snprintf(want, sizeof(want),
                 "%s/generation_config.json: %s; correct the file", root,
                 cases[i].text);
        assert_string_equal(err.text, want);
    }
}

/* ---- Text --------------------------------------------------------------- */

/* Checks that `line` is encoded as `want`, and that `decoded` is decoded as
 * `back`. */
static void check_text(const struct vp_config *config, const char *line,
                       const int32_t *want, const int32_t *decoded,
                       int n_decoded, const char *back)
{
    struct vp_model_text *text;
    struct vp_strbuf out = VP_STRBUF_INIT;
    struct vp_ids ids = { .n = 0 };
    struct vp_err err = { .text = "" };

    assert_int_equal(vp_model_text_open(config, 2, &text, &err), VP_OK);
    assert_non_null(text);
    assert_int_equal(vp_model_text_encode(text, line, strlen(line), &ids),
                     VP_OK);
    for (size_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.at[i], want[i]);
    assert_int_equal(want[ids.n - 1], 2);
    assert_int_equal(vp_model_text_decode(text, decoded, n_decoded, &out, &err),
                     VP_OK);
    assert_string_equal(vp_strbuf_text(&out), back);
    vp_strbuf_release(&out);
    vp_ids_release(&ids);
    vp_model_text_free(text);
}

static void bytes_are_text(void **state)
{
    static const struct vp_config config = { .sizes = { .vocab = 260 } };
    static const int32_t want[] = { 4 + 'a', 4 + 0xC3, 4 + 0xA9, 2 };
    static const int32_t got[] = { 1, 4 + 'b', 4 + '\n', 4 + 0xC3, 4 + 'x', 2 };

    (void)state;
    check_text(&config, "a\xC3\xA9", want, got, 6, "b \xEF\xBF\xBDx");
}

/* The first ids of a WordPiece vocabulary, unchanged and with fairseq's
 * offset. */
static void tokens_are_text(void **state)
{
    struct vp_config config = { .model = vp_model_find("translation"),
                                .sizes = { .vocab = 20, .pad = 1 } };
    int32_t want[] = { 6, 5, 2 }, got[] = { 5, 0, 6, 19, 2 };

    (void)state;
    write_file("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\ntwo\n");
    config.tokenizer = root;
    check_text(&config, "two one", want, got, 5, "one two");
    config.data_dir = "data";
    for (int i = 0; i < 2; i++)
        want[i] += 4;
    for (int i = 0; i < 3; i++)
        got[i] += i == 1 ? 0 : 4;
    check_text(&config, "two one", want, got, 5, "one two");
}

static void some_models_take_ids_only(void **state)
{
    static const struct vp_config config = { .sizes = { .vocab = 128 } };
    struct vp_model_text *text;

    (void)state;
    assert_int_equal(vp_model_text_open(&config, 2, &text, NULL), VP_OK);
    assert_null(text);
}

/* ---- Set-up ------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/vpipe-translate-XXXXXX");
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
        cmocka_unit_test(sentences_keep_their_order),
        cmocka_unit_test(positions_end_a_translation),
        cmocka_unit_test(the_cache_is_planned),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(searches_are_read),
        cmocka_unit_test(searches_have_defaults),
        cmocka_unit_test(bad_searches_are_refused),
        cmocka_unit_test(bytes_are_text),
        cmocka_unit_test(tokens_are_text),
        cmocka_unit_test(some_models_take_ids_only),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
