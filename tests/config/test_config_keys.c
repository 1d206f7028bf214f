/* The table of keys has words, paths, help and working examples for shell
 * completion and messages, and `schedule: auto` makes lists for the given
 * costs. */
#include "config/config.h"
#include "config/keys.h"
#include "config_cases.h"
#include "lib/config_text.h"
#include "lib/configlib.h"
#include "sched/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define TOKENIZERS VP_SOURCE_DIR "/tests/golden/tokenizers/"

/* ---- The nearest key ---------------------------------------------------- */

static void test_nearest_key(void **state)
{
    static const struct {
        const char *typed, *meant; /* NULL: no key is near */
    } cases[] = {
        { "laers", "layers" },
        { "layer", "layers" },
        { "batchsize", "batch_size" },
        { "Batch-Size", "batch_size" },
        { "BATCH_SIZE", "batch_size" },
        { "batch", "batch_size" },
        { "learning_rte", "learning_rate" },
        { "learnign_rate", "learning_rate" },
        { "vocab_length", "vocab" },
        { "hidden_width", "hidden" },
        { "number_of_layers", "layers" },
        { "count_attention_heads", "heads" },
        { "max_position", "max_positions" },
        { "drop_out", "dropout" },
        { "optimiser", "optimizer" },
        { "sed", "seed" },
        { "modeltype", "model_type" },
        { "stage", "stages" },
        { "recompute_ration", "recompute_ratio" },
        { "xyzzy", NULL },
        { "q", NULL },
        { "\xF0\x9F\x98\x80", NULL },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config config;
        struct vp_err err;
        char yaml[128], want[256];

        snprintf(yaml, sizeof(yaml), "model_type: bert\n%s: 1\n",
                 cases[i].typed);
        if (cases[i].meant)
            snprintf(want, sizeof(want),
                     "a.yml:2: unknown key '%s'; did you mean '%s'?",
                     cases[i].typed, cases[i].meant);
        else
            snprintf(want, sizeof(want),
                     "a.yml:2: unknown key '%s'; 'vpipe train --help' lists "
                     "the keys",
                     cases[i].typed);
        assert_int_equal(load_text(yaml, NULL, &config, &err), VP_ERR_INVALID);
        assert_string_equal(err.text, want);
        vp_config_release(&config);
    }
}

/* ---- The table of keys -------------------------------------------------- */

static void test_table(void **state)
{
    struct vp_config c;
    struct vp_key_help help;
    int n = 0;

    (void)state;
    load_ok("model_type: translation\n", NULL, &c);
    for (int i = 0; i < vp_n_keys; i++) {
        const struct vp_key *key = &vp_keys[i];

        assert_ptr_equal(vp_key_find(key->name), key);
        assert_non_null(key->meaning);
        if (key->type == VP_KEY_LATER)
            continue;
        assert_true(vp_config_key_help(i, &help));
        assert_string_equal(help.name, key->name);
        assert_non_null(help.group);
        assert_non_null(help.fallback);
        assert_in_range(strlen(help.type), 1, sizeof(help.type) - 2);
        n++;
    }
    assert_false(vp_config_key_help(n, &help));
    assert_false(vp_config_key_help(-1, &help));
    vp_config_release(&c);
}

/* Words and paths that shell completion offers. */
static void test_words_and_paths(void **state)
{
    static const struct {
        const char *name, *words;
        bool path;
    } cases[] = {
        { "precision", "fp32, tf32, bf16, fp16, auto", false },
        { "model_type", "bert, gpt2, cpm, translation", false },
        { "tie_embeddings", "true, false", false },
        { "lr_warmup", "true, false", false },
        { "loss_scale", "dynamic, off", false },
        { "auto_plan", "false, true, again", false },
        { "verbose", "stages, tensors, versions, communication, time", false },
        { "hidden", "", false },
        { "size", "", false },
        { "data_dir", "", true },
        { "init", "", true },
        { "partition", "", true },
    };
    struct vp_key_help help;
    int n_found = 0;

    (void)state;
    for (int i = 0; vp_config_key_help(i, &help); i++) {
        for (size_t k = 0; k < VP_COUNT_OF(cases); k++) {
            if (strcmp(cases[k].name, help.name) != 0)
                continue;
            assert_string_equal(help.words, cases[k].words);
            assert_int_equal(help.path, cases[k].path);
            n_found++;
        }
        if (strcmp(help.name, "schedule") == 0) {
            assert_true(help.path);
            assert_non_null(strstr(help.words, ", zb-h1, "));
        }
    }
    assert_int_equal(n_found, VP_COUNT_OF(cases));
}

/* The help of key `size` names the default of every model. */
static void test_size_help_names_the_defaults(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "cpm",
                                          "translation" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++)
        assert_non_null(strstr(vp_key_find("size")->fallback,
                               vp_model_find(models[i])->sizes[0].name));
}

/* Returns lines that the example of a key needs to be valid. */
static const char *example_context(const char *name)
{
    static const struct {
        const char *name, *yaml;
    } cases[] = {
        { "macrobatch", ASP },
        { "chunks", "schedule: zb-v\nstages: 2\n" },
        { "schedule_memory", "schedule: v-auto\nstages: 4\n" },
        { "schedule_costs", "schedule: auto\nstages: 4\n" },
        { "partition", "layers: 4\n" },
        { "replicas", "stages: 3\n" },
        { "ranks", "stages: 4\n" },
        { "sequence_parallel", "mp_size: 2\n" },
        { "machines", "stages: 2\n" },
        { "warmup_depths", "stages: 4\n" },
        { "generate_every", "sample_prompts: prompts.txt\n" },
        { "translate_every", "sample_prompts: prompts.txt\n" },
    };

    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        if (strcmp(cases[i].name, name) == 0)
            return cases[i].yaml;
    return "";
}

/* Every example that a message offers loads. */
static void test_examples_work(void **state)
{
    (void)state;
    write_text_file("config.json", gpt2_json);
    assert_int_equal(mkdir("models", 0777), 0);
    assert_int_equal(symlink(TOKENIZERS "gpt2", "models/gpt2"), 0);
    write_text_file("mp_conf.json", "{\"stage_to_rank_map\": {\"0\": [0, 1]}}");
    for (int i = 0; i < vp_n_keys; i++) {
        const struct vp_key *key = &vp_keys[i];
        const char *model = key->type == VP_KEY_JSON ||
                                    key->type == VP_KEY_INIT ||
                                    strcmp(key->name, "tokenizer") == 0 ||
                                    strcmp(key->name, "generate_every") == 0
                                ? "gpt2"
                            : strcmp(key->name, "types") == 0 ||
                                    strcmp(key->name, "max_pred") == 0 ||
                                    strcmp(key->name, "random_next") == 0 ||
                                    key->type == VP_KEY_PLAN ||
                                    key->type == VP_KEY_PLACEMENT
                                ? "bert"
                                : "translation";
        struct vp_config c;
        char yaml[256];

        if (key->type == VP_KEY_LATER)
            continue;
        snprintf(yaml, sizeof(yaml), "%s%s\n%s%s: %s\n%s",
                 key->type == VP_KEY_MODEL ? "" : "model_type: ",
                 key->type == VP_KEY_MODEL ? "" : model,
                 example_context(key->name), key->name, key->example,
                 key->type == VP_KEY_PATH ? "synthetic_data: true\n" : "");
        if (strcmp(key->name, "batch_size") == 0)
            snprintf(yaml, sizeof(yaml), BERT "batch_size: %s\n", key->example);
        load_ok(yaml, NULL, &c);
        vp_config_release(&c);
    }
    unlink("config.json");
    unlink("models/gpt2");
    rmdir("models");
    unlink("mp_conf.json");
}

/* ---- The schedule `auto` ------------------------------------------------ */

/* Parses and validates the schedule that `auto` made. */
static void parse_auto(const struct vp_config *c, struct vp_schedule *out)
{
    struct vp_err err = { .text = "" };

    assert_non_null(c->schedule_text);
    if (vp_schedule_parse(c->schedule_text, "auto", out, &err) != VP_OK ||
        vp_schedule_validate(out, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_string_equal(out->name, "auto");
    assert_int_equal(out->n_stages, c->stages * c->chunks);
    assert_int_equal(out->n_ranks, c->stages);
    assert_int_equal(out->n_mb, c->accumulation_steps);
    assert_true(out->global_norm);
    assert_int_equal(c->partition.n, out->n_stages);
}

/* Returns the activation slots of a rank in halves of a stage: a slot of a
 * stage that is alone on its rank counts 2. */
static double halves(const struct vp_schedule *schedule, int rank)
{
    const struct vp_rank_list *list = &schedule->ranks[rank];
    double sum = 0.0;

    for (int i = 0; i < list->n_stages; i++)
        sum += 2.0 / list->n_stages * schedule->stages[list->stages[i]].n_slots;
    return sum;
}

#define AUTO_8 \
    BERT "layers: 8\nstages: 4\nschedule: auto\naccumulation_steps: 8\n"

/* `auto` chooses chunks and their ranks, or keeps the given ones. A rank never
 * has more slots than schedule_memory, and stages that recompute have an R for
 * every B. */
static void test_schedule_auto(void **state)
{
    static const struct {
        const char *yaml;
        int chunks; /* 0: chosen by auto */
        int memory;
        bool recompute;
    } cases[] = {
        { AUTO_8, 0, 8, false },
        { AUTO_8 "schedule_memory: 4\n", 0, 4, false },
        { AUTO_8 "schedule_memory: 2\n", 0, 2, false },
        { AUTO_8 "chunks: 1\n", 1, 8, false },
        { AUTO_8 "chunks: 2\nrecompute_ratio: 0.5\n", 2, 8, true },
        { AUTO_8 "chunks: 3\n", 3, 8, false },
        { AUTO_8 "partition: [5, 4, 4, 4]\n", 1, 8, false },
        { AUTO_8 "partition: [2, 2, 2, 2, 2, 2, 2, 3]\n", 2, 8, false },
        { AUTO_8 "recompute_ratio: [1, 1, 1, 1]\n", 1, 8, true },
        { AUTO_8 "swap_ratio: [1, 1, 0, 0]\n", 1, 8, false },
        { AUTO_8 "schedule_costs: [1, 2, 0.5]\n", 0, 8, false },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config c;
        struct vp_schedule schedule;
        int n_r = 0;

        load_ok(cases[i].yaml, NULL, &c);
        parse_auto(&c, &schedule);
        if (cases[i].chunks > 0)
            assert_int_equal(c.chunks, cases[i].chunks);
        assert_int_equal(
            schedule.stages[c.stages % schedule.n_stages].first_rank,
            c.chunks == 1  ? 0
            : c.schedule_v ? c.stages - 1
                           : 0);
        for (int r = 0; r < schedule.n_ranks; r++)
            assert_true(halves(&schedule, r) <= cases[i].memory);
        for (int k = 0; k < schedule.n_actions; k++)
            n_r += schedule.actions[k].kind == VP_ACTION_R;
        assert_int_equal(n_r, cases[i].recompute ? 8 * schedule.n_stages : 0);
        vp_schedule_release(&schedule);
        vp_config_release(&c);
    }
}

static double time_of(const char *text, double f, double b, double w)
{
    struct vp_stage_costs stages[VP_MAX_STAGES];
    struct vp_sched_costs costs = { .stages = stages };
    struct vp_schedule schedule;
    struct vp_timing timing;
    struct vp_err err = { .text = "" };
    double makespan;

    for (int s = 0; s < VP_MAX_STAGES; s++)
        stages[s] = (struct vp_stage_costs){ .f = f, .b = b, .w = w };
    assert_int_equal(vp_schedule_parse(text, "auto", &schedule, &err), VP_OK);
    assert_int_equal(vp_simulate(&schedule, &costs, &timing, &err), VP_OK);
    makespan = timing.makespan;
    vp_timing_release(&timing);
    vp_schedule_release(&schedule);
    return makespan;
}

/* schedule_costs decide: a schedule made for long backward passes is faster
 * with those than one made for long forward passes, and vice versa. */
static void test_schedule_costs_decide(void **state)
{
    struct vp_config f, b;

    (void)state;
    load_ok(AUTO_8 "chunks: 1\nschedule_memory: 6\n"
                   "schedule_costs: [3, 1, 1]\n",
            NULL, &f);
    load_ok(AUTO_8 "chunks: 1\nschedule_memory: 6\n"
                   "schedule_costs: [1, 3, 1]\n",
            NULL, &b);
    assert_true(time_of(f.schedule_text, 3, 1, 1) <
                time_of(b.schedule_text, 3, 1, 1));
    assert_true(time_of(b.schedule_text, 1, 3, 1) <
                time_of(f.schedule_text, 1, 3, 1));
    vp_config_release(&f);
    vp_config_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_key),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_words_and_paths),
        cmocka_unit_test(test_size_help_names_the_defaults),
        cmocka_unit_test(test_examples_work),
        cmocka_unit_test(test_schedule_auto),
        cmocka_unit_test(test_schedule_costs_decide),
    };

    return cmocka_run_group_tests(tests, enter_config_folder,
                                  leave_config_folder);
}
