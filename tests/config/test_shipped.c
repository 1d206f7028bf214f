/* All shipped configurations, including those of the original vPipe and
 * tensor-parallel ones, load, plan and train as documented. */
#include "config/config.h"
#include "lib/config_text.h"
#include "lib/configlib.h"
#include "lib/plan_filelib.h"
#include "lib/tempfolder.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CONFIGS VP_SOURCE_DIR "/configs"

/* Every file of configs/ with its numbers of blocks, stages and ranks. */
static const struct {
    const char *name;
    int n_blocks, n_stages, n_ranks;
    enum vp_sync_mode sync;
} shipped[] = {
    { "bert_2gpipe", 49, 2, 2, VP_SYNC_BSP },
    { "bert_4vpipe", 49, 4, 4, VP_SYNC_ASP },
    { "bert_4gpipe", 49, 4, 4, VP_SYNC_BSP },
    { "bert_4pipedream", 49, 4, 4, VP_SYNC_ASP },
    { "bert_8vpipe", 97, 8, 8, VP_SYNC_ASP },
    { "bert_8gpipe", 97, 8, 8, VP_SYNC_BSP },
    { "bert_8pipedream", 97, 8, 8, VP_SYNC_ASP },
    { "transformer_4vpipe", 33, 4, 4, VP_SYNC_ASP },
    { "transformer_4gpipe", 33, 4, 4, VP_SYNC_BSP },
    { "transformer_4pipedream", 33, 4, 4, VP_SYNC_ASP },
    { "transformer_8vpipe", 63, 8, 8, VP_SYNC_ASP },
    { "transformer_8gpipe", 63, 8, 8, VP_SYNC_BSP },
    { "transformer_8pipedream", 63, 8, 8, VP_SYNC_ASP },
    { "cpm_medium_4vpipe", 50, 4, 4, VP_SYNC_ASP },
    { "cpm_medium_4gpipe", 50, 4, 4, VP_SYNC_BSP },
    { "cpm_medium_4pipedream", 50, 4, 4, VP_SYNC_ASP },
    { "cpm_medium_8vpipe", 50, 8, 8, VP_SYNC_ASP },
    { "cpm_medium_12vpipe", 50, 12, 12, VP_SYNC_ASP },
    { "cpm_medium_dp", 50, 3, 4, VP_SYNC_BSP },
    { "cpm_large_4vpipe", 66, 4, 4, VP_SYNC_ASP },
    { "cpm_large_4gpipe", 66, 4, 4, VP_SYNC_BSP },
    { "cpm_large_4pipedream", 66, 4, 4, VP_SYNC_ASP },
    { "cpm_large_8vpipe", 66, 8, 8, VP_SYNC_ASP },
    { "cpm_large_8gpipe", 66, 8, 8, VP_SYNC_BSP },
    { "cpm_large_4mp", 66, 4, 16, VP_SYNC_ASP },
    { "cpm_large_8mp", 66, 8, 32, VP_SYNC_ASP },
    { "cpm_large_4mp_tiny", 10, 4, 16, VP_SYNC_ASP },
    { "cpm_large_8mp_tiny", 18, 8, 32, VP_SYNC_ASP },
    { "bert_tiny", 9, 4, 4, VP_SYNC_ASP },
    { "bert_one", 9, 1, 1, VP_SYNC_BSP },
    { "bert_4gpipe_tiny", 9, 4, 4, VP_SYNC_BSP },
    { "bert_4pipedream_tiny", 9, 4, 4, VP_SYNC_ASP },
    { "bert_2gpipe_tiny", 9, 2, 2, VP_SYNC_BSP },
    { "bert_8vpipe_tiny", 17, 8, 8, VP_SYNC_ASP },
    { "bert_8gpipe_tiny", 17, 8, 8, VP_SYNC_BSP },
    { "bert_8pipedream_tiny", 17, 8, 8, VP_SYNC_ASP },
    { "transformer_4vpipe_tiny", 13, 4, 4, VP_SYNC_ASP },
    { "cpm_medium_4vpipe_tiny", 10, 4, 4, VP_SYNC_ASP },
    { "cpm_medium_dp_tiny", 10, 3, 4, VP_SYNC_BSP },
    { "gpt2_tiny", 6, 1, 1, VP_SYNC_BSP },
    { "translation_tiny", 13, 1, 1, VP_SYNC_BSP },
};

static void test_shipped(void **state)
{
    DIR *dir = opendir(CONFIGS);
    struct dirent *entry;
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(shipped); i++) {
        struct vp_config c;
        char path[512];

        snprintf(path, sizeof(path), CONFIGS "/%s.yml", shipped[i].name);
        load_file(path, "synthetic_data=true", &c);
        assert_int_equal(c.model->n_blocks(&c.sizes), shipped[i].n_blocks);
        assert_int_equal(vp_config_n_stages(&c), shipped[i].n_stages);
        assert_int_equal(vp_config_n_ranks(&c), shipped[i].n_ranks);
        assert_int_equal(c.sync_mode, shipped[i].sync);
        vp_config_release(&c);
    }
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        n += strstr(entry->d_name, ".yml") != NULL;
    closedir(dir);
    assert_int_equal(n, VP_COUNT_OF(shipped));
}

/* Every value of the six files of the original vPipe. */
static void test_original(void **state)
{
    static const struct {
        const char *name;
        int batch, n;
        int partition[8];
        double ratio[8];
    } cases[] = {
        { "bert_4vpipe", 16, 4, { 12, 13, 13, 11 }, { 0.3 } },
        { "bert_4gpipe", 16, 4, { 13, 13, 13, 10 }, { 1, 1, 1, 1 } },
        { "bert_4pipedream", 8, 4, { 13, 13, 13, 10 }, { 0 } },
        { "bert_8vpipe",
          16,
          8,
          { 11, 11, 12, 12, 13, 13, 14, 11 },
          { 1, 0.85, 0.8, 0.6, 0.5, 0.2, 0, 0 } },
        { "bert_8gpipe",
          16,
          8,
          { 12, 12, 13, 13, 13, 13, 12, 9 },
          { 1, 1, 1, 1, 1, 1, 1, 1 } },
        { "bert_8pipedream", 4, 8, { 11, 12, 13, 13, 13, 13, 12, 10 }, { 0 } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config c;
        char path[512];

        snprintf(path, sizeof(path), CONFIGS "/%s.yml", cases[i].name);
        load_file(path, "synthetic_data=true", &c);
        assert_int_equal(c.batch_size, cases[i].batch);
        assert_ints(&c.partition, cases[i].n, cases[i].partition);
        assert_reals(&c.recompute_ratio, cases[i].n, cases[i].ratio);
        assert_true(c.lr.base == 0.05f);
        assert_int_equal(c.lr.policy, VP_LR_POLYNOMIAL);
        assert_int_equal(c.optim.kind, VP_OPTIM_LAMB);
        assert_true(c.optim.weight_decay == 0.0f);
        assert_int_equal(c.epochs, 40);
        assert_int_equal(c.print_frequency, 100);
        assert_int_equal(c.verbose_frequency, 0);
        assert_int_equal(c.distributed_backend, VP_TRANSPORT_GLOO);
        assert_string_equal(c.container, "bert");
        assert_int_equal(c.machines.n, cases[i].n);
        assert_string_equal(c.machines.at[0].host,
                            cases[i].n == 8 ? "heming-g5" : "localhost");
        assert_string_equal(c.machines.at[cases[i].n - 1].host, "localhost");
        assert_int_equal(c.machines.at[cases[i].n - 1].device, 3);
        assert_int_equal(c.sizes.tie_embeddings, c.sync_mode == VP_SYNC_BSP);
        assert_int_equal(c.accumulation_steps,
                         c.sync_mode == VP_SYNC_BSP ? 32 : 1);
        assert_string_equal(strrchr(c.log_directory, '/'), "/output");
        assert_string_equal(strrchr(c.data_dir, '/'), "/bookscorpus");
        assert_int_equal(vp_config_is_distributed(&c), cases[i].n == 8);
        assert_int_equal(c.n_notices, cases[i].n == 8 ? 0 : 1);
        vp_config_release(&c);
    }
}

/* A row of the table that --dry-run prints; `lines` are recomputed operations
 * out of all. */
struct table_row {
    const char *blocks;
    int depth, versions;
    const char *lines;
};

static void check_row(const char *text, int stage, const struct table_row *want)
{
    char start[64], blocks[16], lines[16];
    int s, rank, depth, slots, versions;
    const char *line;

    snprintf(start, sizeof(start), "\n%5d  %5d  ", stage, stage);
    line = strstr(text, start);
    assert_non_null(line);
    /* Parameters and memory are numbers with units: 79.8M 4.25 GB */
    assert_int_equal(sscanf(line, "%d %d %15s %*s %*s %*s %d %d %d %15s", &s,
                            &rank, blocks, &depth, &slots, &versions, lines),
                     7);
    assert_string_equal(blocks, want->blocks);
    assert_int_equal(depth, want->depth);
    assert_int_equal(slots, want->depth + 1);
    assert_int_equal(versions, want->versions);
    assert_string_equal(lines, want->lines);
}

static const struct {
    const char *name, *blocks;
    struct table_row rows[8];
} dry_runs[] = {
    { "bert_4vpipe",
      "49 blocks, 366M parameters",
      { { "0-11", 3, 4, "18/60" },
        { "12-24", 2, 3, "-" },
        { "25-37", 1, 2, "-" },
        { "38-48", 0, 1, "-" } } },
    { "bert_4gpipe",
      "49 blocks",
      { { "0-12", 3, 1, "65/65" },
        { "13-25", 2, 1, "65/65" },
        { "26-38", 1, 1, "65/65" },
        { "39-48", 0, 1, "50/50" } } },
    { "bert_4pipedream",
      "49 blocks, 366M parameters",
      { { "0-12", 3, 4, "-" },
        { "13-25", 2, 3, "-" },
        { "26-38", 1, 2, "-" },
        { "39-48", 0, 1, "-" } } },
    { "bert_8vpipe",
      "97 blocks, 669M parameters",
      { { "0-10", 7, 8, "55/55" },
        { "11-21", 6, 7, "46/55" },
        { "22-33", 5, 6, "48/60" },
        { "34-45", 4, 5, "36/60" },
        { "46-58", 3, 4, "32/65" },
        { "59-71", 2, 3, "13/65" },
        { "72-85", 1, 2, "-" },
        { "86-96", 0, 1, "-" } } },
    { "bert_8gpipe",
      "97 blocks",
      { { "0-11", 7, 1, "60/60" },
        { "12-23", 6, 1, "60/60" },
        { "24-36", 5, 1, "65/65" },
        { "37-49", 4, 1, "65/65" },
        { "50-62", 3, 1, "65/65" },
        { "63-75", 2, 1, "65/65" },
        { "76-87", 1, 1, "60/60" },
        { "88-96", 0, 1, "45/45" } } },
    { "bert_8pipedream",
      "97 blocks, 669M parameters",
      { { "0-10", 7, 8, "-" },
        { "11-22", 6, 7, "-" },
        { "23-35", 5, 6, "-" },
        { "36-48", 4, 5, "-" },
        { "49-61", 3, 4, "-" },
        { "62-74", 2, 3, "-" },
        { "75-86", 1, 2, "-" },
        { "87-96", 0, 1, "-" } } },
    { "transformer_4vpipe",
      "33 blocks",
      { { "0-8", 3, 4, "25/50" },
        { "9-17", 2, 3, "9/48" },
        { "18-27", 1, 2, "-" },
        { "28-32", 0, 1, "-" } } },
    { "cpm_medium_4vpipe",
      "50 blocks, 365M parameters",
      { { "0-11", 3, 4, "25/37" },
        { "12-23", 2, 3, "21/36" },
        { "24-36", 1, 2, "7/39" },
        { "37-49", 0, 1, "-" } } },
};

static void test_dry_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(dry_runs); i++) {
        char path[512];
        const char *const arguments[] = { "train",     path,
                                          "--set",     "synthetic_data=true",
                                          "--dry-run", NULL };
        struct program_outcome outcome;

        snprintf(path, sizeof(path), CONFIGS "/%s.yml", dry_runs[i].name);
        run_program(&outcome, arguments);
        assert_string_equal(outcome.err, "");
        assert_int_equal(outcome.status, 0);
        assert_non_null(strstr(outcome.out, dry_runs[i].blocks));
        for (int s = 0; s < 8 && dry_runs[i].rows[s].blocks; s++)
            check_row(outcome.out, s, &dry_runs[i].rows[s]);
    }
}

/* Returns the number of steps in the metrics of `folder`. Each must have a
 * finite loss and the memory of `n_stages` stages. */
static int read_losses(const char *folder, int n_stages, double *first,
                       double *last)
{
    char path[64], *text, *save = NULL;
    int n = 0;

    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    text = read_plan_text(path);
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        const char *loss = strstr(line, "\"loss\": ");
        const char *memory = strstr(line, "\"memory\": [");
        int n_commas = 0;

        if (strstr(line, "\"event\""))
            continue;
        assert_non_null(loss);
        assert_non_null(memory);
        *last = strtod(loss + 8, NULL);
        assert_true(isfinite(*last) && *last > 0);
        if (n++ == 0)
            *first = *last;
        for (; *memory != ']'; memory++)
            n_commas += *memory == ',';
        assert_int_equal(n_commas, n_stages - 1);
    }
    free(text);
    return n;
}

/* The six files of the original vPipe train with their blocks, plans and
 * placements, a small width, and shards written by h5py. */
static void test_original_trains(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        bool sync = strstr(dry_runs[i].name, "gpipe") != NULL;
        int n_stages = dry_runs[i].rows[4].blocks ? 8 : 4;
        int n_steps = sync ? 2 : 24;
        double first = NAN, last = NAN;
        static const char shards[] = "data_dir=" VP_SOURCE_DIR
                                     "/tests/golden/hdf5/nvidia";
        static const char here[] = "distributed_backend=local";
        char path[512], steps[8];
        const char *const arguments[] = { "train",       path,
                                          "--output",    dry_runs[i].name,
                                          "--max-steps", steps,
                                          "--set",       shards,
                                          "--set",       "seq_length=16",
                                          "--set",       "max_pred=4",
                                          "--set",       "batch_size=2",
                                          "--set",       "vocab=200",
                                          "--set",       "hidden=16",
                                          "--set",       "ffn=32",
                                          "--set",       "heads=2",
                                          "--set",       "positions=16",
                                          "--set",       "threads_per_stage=1",
                                          "--set",       here,
                                          NULL };
        struct program_outcome outcome;

        snprintf(path, sizeof(path), CONFIGS "/%s.yml", dry_runs[i].name);
        snprintf(steps, sizeof(steps), "%d", n_steps);
        run_program(&outcome, arguments);
        assert_string_equal(outcome.err, "");
        assert_int_equal(outcome.status, 0);
        assert_non_null(
            strstr(outcome.out, n_stages == 8 ? "97 blocks" : "49 blocks"));
        for (int s = 0; s < n_stages; s++)
            check_row(outcome.out, s, &dry_runs[i].rows[s]);
        assert_int_equal(read_losses(dry_runs[i].name, n_stages, &first, &last),
                         n_steps);
        print_message("%-16s loss %.4f, after %d %s %.4f\n", dry_runs[i].name,
                      first, n_steps, sync ? "updates" : "minibatches", last);
    }
}

/* A run compares its measurements with the forecast of its plan, or with a
 * forecast of its own if the plan's has no time. */
static void test_forecast_is_compared(void **state)
{
    static const char model[] =
        "model_type: bert\nlayers: 4\nhidden: 16\nffn: 32\nheads: 2\n"
        "batch_size: 2\nseq_length: 16\nthreads_per_stage: 1\n"
        "total_steps: 3\nsynthetic_data: true\npartition: f.json\n";
    static const struct {
        const char *folder, *forecast, *want;
    } cases[] = {
        { "planned",
          "{\"step_seconds\": 0.25, \"bubble\": 0.125, \"memory\": [1, 2]}",
          "{\"step\": 3, \"event\": \"forecast\", \"forecast_by\": \"plan\", "
          "\"step_seconds_forecast\": 0.25, \"bubble_forecast\": 0.125, "
          "\"memory_forecast\": [1, 2], \"step_seconds_measured\": " },
        { "unlisted",
          "{\"step_seconds\": 0.25, \"bubble\": 0.125, \"memory\": [1]}",
          "\"step_seconds_forecast\": 0.25, \"bubble_forecast\": 0.125, "
          "\"memory_forecast\": [" },
        { "untimed", "{\"bubble\": 0.125, \"memory\": [1, 2]}",
          "\"forecast_by\": \"first_steps\", " },
        { "timeless", "{\"step_seconds\": 0, \"bubble\": 0}",
          "\"forecast_by\": \"first_steps\", " },
        { "strange", "[\"anything\"]", "\"forecast_by\": \"first_steps\", " },
    };

    (void)state;
    write_text_file("f.yml", model);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *const arguments[] = { "train", "f.yml", "--output",
                                          cases[i].folder, NULL };
        char path[64], plan[256], *text;
        struct program_outcome outcome;

        snprintf(plan, sizeof(plan),
                 "{\"version\": 1, \"partition\": [5, 4], \"forecast\": %s}",
                 cases[i].forecast);
        write_text_file("f.json", plan);
        run_program(&outcome, arguments);
        assert_string_equal(outcome.err, "");
        assert_int_equal(outcome.status, 0);
        assert_non_null(strstr(outcome.out, i < 2 ? "\nforecast  by the plan: "
                                                    "step 250 ms, measured "
                                                  : "\nforecast  by the first "
                                                    "steps: step "));
        snprintf(path, sizeof(path), "%s/metrics.jsonl", cases[i].folder);
        text = read_plan_text(path);
        assert_non_null(strstr(text, cases[i].want));
        assert_null(strstr(strstr(text, "\"event\""), "\"loss\""));
        assert_null(strstr(strstr(text, "\"event\""), "\"seconds\""));
        if (i > 0)
            assert_null(strstr(text, "\"memory_forecast\": [1"));
        free(text);
    }
}

/* A tensor-parallel placement names the first rank of each group. */
static void test_tensor_parallel(void **state)
{
    static const struct {
        const char *name;
        int stages, mp_size, n_groups, n_ranks;
    } cases[] = {
        { "large_4", 4, 2, 8, 16 },
        { "large_8", 8, 4, 8, 32 },
    };
    struct vp_config c;
    char yaml[512];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        snprintf(yaml, sizeof(yaml),
                 "model_type: cpm\nmodule: %s\n"
                 "config_file: " CONFIGS "/cpm/%s/mp_conf.json\n",
                 cases[i].name, cases[i].name);
        load_ok(yaml, NULL, &c);
        assert_int_equal(c.stages, cases[i].stages);
        assert_int_equal(c.mp_size, cases[i].mp_size);
        assert_int_equal(vp_config_n_groups(&c), cases[i].n_groups);
        assert_int_equal(vp_config_n_ranks(&c), cases[i].n_ranks);
        assert_int_equal(c.ranks.n, 0);
        for (int r = 0; r < cases[i].n_ranks; r++)
            assert_int_equal(vp_config_rank_number(&c, r), r);
        vp_config_release(&c);
    }
    /* Groups may be in another order; their members have consecutive ranks. */
    write_text_file("m.json", "{\"stage_to_rank_map\": {\"0\": [2], "
                              "\"1\": [0]}, \"mp_size\": 2}\n");
    load_ok(NINE "optimizer: adam\nconfig_file: m.json\n", NULL, &c);
    assert_ints(&c.ranks, INTS(1, 0));
    assert_int_equal(vp_config_n_ranks(&c), 4);
    for (int r = 0; r < 4; r++)
        assert_int_equal(vp_config_rank_number(&c, r), (r + 2) % 4);
    vp_config_release(&c);
    write_text_file("m.json", "{\"stage_to_rank_map\": {\"0\": [0], "
                              "\"1\": [4]}, \"mp_size\": 2}\n");
    assert_string_equal(refused_message(NINE "config_file: m.json\n"),
                        "m.json:1: rank 2 is missing in key "
                        "'stage_to_rank_map'; number the 2 ranks from 0, "
                        "without a hole");
}

/* Keys that tensor-parallel groups do not support are refused. */
static void test_tensor_refusals(void **state)
{
    static const struct {
        const char *key, *why;
    } cases[] = {
        { "optimizer: lamb\ndevice: cuda",
          "groups on GPUs cannot train with lamb; use adamw, or device: cpu "
          "(key 'optimizer')" },
        { "rebalance: true", "tensor-parallel ranks cannot be re-balanced; set "
                             "rebalance: false (key 'rebalance')" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char yaml[512], want[512];

        snprintf(yaml, sizeof(yaml), NINE "mp_size: 2\n%s\n", cases[i].key);
        snprintf(want, sizeof(want), "key 'mp_size' is 2, but %s",
                 cases[i].why);
        if (!strstr(refused_message(yaml), want))
            fail_msg("'%s' does not say '%s'", refused_message(yaml), want);
    }
}

/* The key mp_size has priority over the placement: with mp_size 1, each rank
 * that the file names as the first of a group is a rank of its own. */
static void test_mp_size_wins(void **state)
{
    static const char start[] = "model_type: cpm\nmodule: large_%d\n"
                                "config_file: " CONFIGS
                                "/cpm/large_%d/mp_conf.json\n";
    struct vp_config c;
    char yaml[512];

    (void)state;
    snprintf(yaml, sizeof(yaml), start, 4, 4);
    load_ok(yaml, "mp_size=1", &c);
    assert_int_equal(c.mp_size, 1);
    assert_string_equal(vp_config_place(&c, "mp_size"), "--set");
    assert_int_equal(c.stages, 4);
    assert_ints(&c.replicas, INTS(2, 2, 2, 2));
    assert_int_equal(c.ranks.n, 0);
    vp_config_release(&c);
    snprintf(yaml, sizeof(yaml), start, 8, 8);
    strncat(yaml, "mp_size: 1\n", sizeof(yaml) - strlen(yaml) - 1);
    load_ok(yaml, NULL, &c);
    assert_string_equal(vp_config_place(&c, "mp_size"), "a.yml:4");
    assert_int_equal(vp_config_n_ranks(&c), 8);
    assert_int_equal(c.ranks.n, 0);
    vp_config_release(&c);

    /* Rank numbers without a gap are kept. */
    write_text_file("m.json", "{\"stage_to_rank_map\": {\"0\": [1], "
                              "\"1\": [0]}, \"mp_size\": 2}\n");
    load_ok(NINE "config_file: m.json\n", "mp_size=1", &c);
    assert_ints(&c.ranks, INTS(1, 0));
    vp_config_release(&c);
    write_text_file("m.json", "{\"stage_to_rank_map\": {\"0\": [2], "
                              "\"1\": [0]}, \"mp_size\": 2}\n");
    load_ok(NINE "config_file: m.json\n", "mp_size=1", &c);
    assert_ints(&c.ranks, INTS(1, 0));
    vp_config_release(&c);
    write_text_file("m.json", "{\"stage_to_rank_map\": {\"0\": [0], "
                              "\"1\": [4]}, \"mp_size\": 2}\n");
    assert_string_equal(refused_message(NINE "config_file: m.json\n"
                                             "mp_size: 1\n"),
                        "m.json:1: rank 2 is missing in key "
                        "'stage_to_rank_map'; number the 2 ranks from 0, "
                        "without a hole");
    assert_string_equal(refused_message(NINE "config_file: m.json\n"
                                             "mp_size: 2\n"),
                        "m.json:1: rank 2 is missing in key "
                        "'stage_to_rank_map'; number the 2 ranks from 0, "
                        "without a hole");
}

/* Every shipped plan loads with every shipped placement of its module. */
static void test_shipped_json(void **state)
{
    static const struct {
        const char *model, *folder, *module, *plans[3], *placements[4];
    } cases[] = {
        { "bert", "bert/vgpus=2", "vgpus=2", { "gpipe" }, { "mp_conf" } },
        { "bert",
          "bert/vgpus=4",
          "vgpus=4",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf", "dp_conf" } },
        { "bert",
          "bert/vgpus=8",
          "vgpus=8",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf" } },
        { "translation",
          "transformer/vgpus=4",
          "vgpus=4",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf" } },
        { "translation",
          "transformer/vgpus=8",
          "vgpus=8",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf" } },
        { "cpm",
          "cpm/medium_4",
          "medium_4",
          { "vpipe", "gpipe", "pipedream" },
          { "mp_conf", "dp_conf", "8dp_conf" } },
        { "cpm", "cpm/medium_8", "medium_8", { "vpipe" }, { "mp_conf" } },
        { "cpm", "cpm/medium_12", "medium_12", { "vpipe" }, { "mp_conf" } },
        { "cpm", "cpm/medium_dp", "medium_dp", { "gpipe_dp" }, { "dp_conf" } },
        { "cpm",
          "cpm/large_4",
          "large_4",
          { "vpipe", "gpipe", "pipedream" },
          { "dp_conf", "32dp_conf" } },
        { "cpm",
          "cpm/large_8",
          "large_8",
          { "vpipe", "gpipe" },
          { "32dp_conf" } },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        for (int p = 0; p < 3 && cases[i].plans[p]; p++)
            for (int k = 0; k < 4 && cases[i].placements[k]; k++) {
                struct vp_config c;
                char yaml[1024];

                snprintf(yaml, sizeof(yaml),
                         "model_type: %s\ndirectory: " CONFIGS "/%s\n"
                         "module: %s\npartition: %s.json\n"
                         "config_file: %s.json\nsync_mode: asp\n",
                         cases[i].model, cases[i].folder, cases[i].module,
                         cases[i].plans[p], cases[i].placements[k]);
                load_ok(yaml, NULL, &c);
                vp_config_release(&c);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_original),
        cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_original_trains),
        cmocka_unit_test(test_tensor_parallel),
        cmocka_unit_test(test_tensor_refusals),
        cmocka_unit_test(test_mp_size_wins),
        cmocka_unit_test(test_shipped_json),
        cmocka_unit_test(test_forecast_is_compared),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
