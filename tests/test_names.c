/* Names that a user brings along from elsewhere, or mistypes: keys, options and
 * paths. What the message names must be right. */
#include "base/nearest.h"
#include "config/config.h"
#include "config/hints.h"
#include "config/keys.h"

#include <limits.h>
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

#include "configlib.h"

/* ---- Helpers: all files live in one temporary folder -------------------- */

static char temp_folder[] = "/tmp/vpipe_names_XXXXXX";
static const char *const folders[] = { "configs", "data", "data/books", "one" };
static const char *const files[] = { "configs/bert_tiny.yml",
                                     "configs/bert_tidy.yml",
                                     "configs/gpt2.yml",
                                     "plan.json",
                                     ".hidden",
                                     "a.yml" };

static void touch(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int enter_temp_folder(void **state)
{
    (void)state;
    if (!mkdtemp(temp_folder) || chdir(temp_folder) != 0)
        return -1;
    for (size_t i = 0; i < VP_COUNT_OF(folders); i++)
        if (mkdir(folders[i], 0700) != 0)
            return -1;
    for (size_t i = 0; i < VP_COUNT_OF(files); i++)
        touch(files[i], "model_type: bert\n");
    return symlink("nowhere", "data/dangling");
}

static int leave_temp_folder(void **state)
{
    (void)state;
    unlink("data/dangling");
    for (size_t i = 0; i < VP_COUNT_OF(files); i++)
        unlink(files[i]);
    for (size_t i = VP_COUNT_OF(folders); i > 0; i--)
        rmdir(folders[i - 1]);
    return chdir("/") | rmdir(temp_folder);
}

/* a.yml holds `yaml`; the message of what is refused. */
static const char *refused(const char *yaml, const char *set)
{
    static struct vp_err err;
    struct vp_config config;

    touch("a.yml", yaml);
    err = (struct vp_err){ .text = "" };
    if (vp_config_load("a.yml", &set, set ? 1 : 0, &config, &err) == VP_OK &&
        vp_config_find_data(&config, &err) == VP_OK)
        fail_msg("taken: %s%s", yaml, set ? set : "");
    vp_config_release(&config);
    return err.text;
}

static void load_ok(const char *yaml, const char *set, struct vp_config *out)
{
    struct vp_err err = { .text = "" };

    touch("a.yml", yaml);
    if (vp_config_load("a.yml", &set, set ? 1 : 0, out, &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* ---- Keys and options --------------------------------------------------- */

/* The remedy in a file, in --set and as an option. */
static const struct {
    const char *name, *file, *set, *flag;
} names[] = {
    { "lr", "use 'learning_rate'", "use 'learning_rate'",
      "use '--set learning_rate=...'" },
    { "max_steps", "use 'total_steps'", "use 'total_steps'",
      "use '--max-steps N'" },
    { "warmup_steps", "use 'lr_warmup' (a share of all steps)",
      "use 'lr_warmup' (a share of all steps)",
      "use '--set lr_warmup=...' (a share of all steps)" },
    { "dtype", "use 'precision' (fp32, tf32, bf16 or fp16)",
      "use 'precision' (fp32, tf32, bf16 or fp16)",
      "use '--set precision=...' (fp32, tf32, bf16 or fp16)" },
    { "fp16", "use 'precision: fp16'", "use 'precision=fp16'",
      "use '--set precision=fp16'" },
    { "bf16", "use 'precision: bf16'", "use 'precision=bf16'",
      "use '--set precision=bf16'" },
    { "n_head", "use 'heads'", "use 'heads'", "use '--set heads=...'" },
    { "n_layer", "use 'layers'", "use 'layers'", "use '--set layers=...'" },
    { "n_embd", "use 'hidden'", "use 'hidden'", "use '--set hidden=...'" },
    { "block_size", "use 'seq_length'", "use 'seq_length'",
      "use '--set seq_length=...'" },
    { "max_seq_len", "use 'seq_length'", "use 'seq_length'",
      "use '--set seq_length=...'" },
    { "micro_batch_size", "use 'batch_size'", "use 'batch_size'",
      "use '--set batch_size=...'" },
    { "gradient_accumulation_steps", "use 'accumulation_steps'",
      "use 'accumulation_steps'", "use '--set accumulation_steps=...'" },
    { "gradient_checkpointing", "use 'recompute_ratio: 1'",
      "use 'recompute_ratio=1'", "use '--set recompute_ratio=1'" },
    { "num_train_epochs", "use 'epochs'", "use 'epochs'",
      "use '--set epochs=...'" },
    { "init_checkpoint", "use '--resume DIR' (a checkpoint that vpipe wrote)",
      "use '--resume DIR' (a checkpoint that vpipe wrote)",
      "use '--resume DIR' (a checkpoint that vpipe wrote)" },
    { "checkpoint_dir",
      "use 'log_directory' (checkpoints are in the run folder)",
      "use 'log_directory' (checkpoints are in the run folder)",
      "use '--output DIR' (checkpoints are in the run folder)" },
    { "vocab_file",
      "remove it: text is read byte by byte, shards hold token ids",
      "remove it: text is read byte by byte, shards hold token ids",
      "remove it: text is read byte by byte, shards hold token ids" },
    { "world_size", "use 'stages' (one rank each, more with replicas)",
      "use 'stages' (one rank each, more with replicas)",
      "use '--set stages=...' (one rank each, more with replicas)" },
};

static void test_names_of_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        char yaml[128], set[64], want[256];

        snprintf(yaml, sizeof(yaml), "model_type: bert\n%s: 1\n",
                 names[i].name);
        snprintf(want, sizeof(want), "a.yml:2: unknown key '%s'; %s",
                 names[i].name, names[i].file);
        assert_string_equal(refused(yaml, NULL), want);
        snprintf(set, sizeof(set), "%s=1", names[i].name);
        snprintf(want, sizeof(want), "--set: unknown key '%s'; %s",
                 names[i].name, names[i].set);
        assert_string_equal(refused("model_type: bert\n", set), want);
    }
}

static void check_flag(const char *flag, const char *want)
{
    char text[256] = "nothing";

    assert_int_equal(vp_hint(VP_HINT_FLAG, flag, text, sizeof(text)),
                     want != NULL);
    assert_string_equal(text, want ? want : "nothing");
}

static void test_names_of_options(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        char flag[64];

        snprintf(flag, sizeof(flag), "--%s", names[i].name);
        check_flag(flag, names[i].flag);
    }
    check_flag("--LR", "use '--set learning_rate=...'");
    check_flag("--micro-batch-size", "use '--set batch_size=...'");
    check_flag("--steps", "use '--max-steps N'");
    check_flag("--config", "use '--config_file FILE'");
    /* Keys by their own names. */
    check_flag("--device", "use '--set device=...'");
    check_flag("--epochs", "use '--set epochs=...'");
    check_flag("--batch-size", "use '--set batch_size=...'");
    check_flag("--xyzzy", NULL);
    check_flag("--", NULL);
}

/* A key is no name of another program, in a file or --set. */
static void test_own_keys_are_none(void **state)
{
    char text[256];

    (void)state;
    for (int i = 0; i < vp_n_keys; i++) {
        assert_false(vp_hint(VP_HINT_SET,
                             vp_keys[i].alias ? vp_keys[i].alias : "", text,
                             sizeof(text)));
        if (strcmp(vp_keys[i].name, "config") != 0)
            assert_false(
                vp_hint(VP_HINT_FILE, vp_keys[i].name, text, sizeof(text)));
    }
}

/* What a remedy names exists. */
static void test_remedies_are_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(names); i++) {
        char key[64];

        if (strncmp(names[i].set, "use '", 5) != 0 || names[i].set[5] == '-')
            continue;
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(names[i].set + 5, "'="),
                 names[i].set + 5);
        if (!vp_key_find(key))
            fail_msg("%s: '%s' is no key", names[i].name, key);
    }
}

/* ---- Lists without brackets --------------------------------------------- */

#define NINE "model_type: bert\nlayers: 4\n"

static void test_lists(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(NINE, "partition=2,2,2,3", &c);
    assert_ints(&c.partition, INTS(2, 2, 2, 3));
    assert_int_equal(c.stages, 4);
    vp_config_release(&c);
    load_ok(NINE "partition: 2, 2, 5\n", "recompute_ratio=.5,0, 1", &c);
    assert_ints(&c.partition, INTS(2, 2, 5));
    assert_reals(&c.recompute_ratio, REALS(0.5, 0, 1));
    vp_config_release(&c);
    load_ok(NINE "stages: 2\n", "replicas=2,1", &c);
    assert_ints(&c.replicas, INTS(2, 1));
    vp_config_release(&c);
    load_ok(NINE "stages: 2\n", "machines=localhost:0,localhost:1", &c);
    assert_int_equal(c.machines.n, 2);
    assert_string_equal(c.machines.at[1].host, "localhost");
    assert_int_equal(c.machines.at[1].device, 1);
    vp_config_release(&c);
    /* One number is still none, or one for all stages. */
    load_ok(NINE "stages: 2\n", "recompute_ratio=0.5", &c);
    assert_reals(&c.recompute_ratio, REALS(0.5, 0.5));
    vp_config_release(&c);
    assert_string_equal(refused(NINE, "partition=9"),
                        "--set: key 'partition' must be a list of whole "
                        "numbers from 1 to 100000, or the path of a plan, not "
                        "'9'; write for example 'partition=[3, 2, 2, 2]'");
    assert_string_equal(refused(NINE, "partition=2,x,2,3"),
                        "--set: key 'partition' has 'x' as entry 2; write "
                        "whole numbers from 1 to 100000, for example "
                        "'partition=[3, 2, 2, 2]'");
    assert_string_equal(refused(NINE, "partition=2,2,2,"),
                        "--set: key 'partition' has '' as entry 4; write whole "
                        "numbers from 1 to 100000, for example 'partition=[3, "
                        "2, 2, 2]'");
    /* In quotes it is text, and so is a path with a comma. */
    assert_non_null(strstr(refused(NINE "partition: '2,2,5'\n", NULL),
                           "2,2,5: cannot be opened"));
    assert_non_null(strstr(refused(NINE, "partition=plans/a,b.json"),
                           "plans/a,b.json: cannot be opened"));
}

/* ---- Paths -------------------------------------------------------------- */

static void test_nearest_path(void **state)
{
    static const struct {
        const char *typed, *meant; /* NULL: nothing near */
    } cases[] = {
        { "configs/gpt.yml", "configs/gpt2.yml" },
        { "configs/bert_tny.yml", "configs/bert_tiny.yml" },
        { "configs/BERT-tiny.yml", "configs/bert_tiny.yml" },
        { "configs/bert_tiny.yaml", "configs/bert_tiny.yml" },
        { "configs/bert_tiny", "configs/bert_tiny.yml" },
        /* Of equals, the first in the alphabet. */
        { "configs/bert_tixy.yml", "configs/bert_tidy.yml" },
        { "confgs/gpt2.yml", "configs/gpt2.yml" },
        { "./confgs/gpt.yml", "./configs/gpt2.yml" },
        { "dta/boks", "data/books" },
        { "dta/xyzzy", "data" },
        { "pln.json", "plan.json" },
        /* A short name is not all letters of another, whatever they end with. */
        { "x.yml", NULL },
        { "none.yml", NULL },
        { "configs/xyzzy.yml", NULL },
        { "hidden", NULL },
        { ".hiden", ".hidden" },
        /* What is there, a link to nothing, a file for a folder, nothing. */
        { "plan.json", NULL },
        { "data/dangling", NULL },
        { "plan.json/x", NULL },
        { "", NULL },
        { "/", NULL },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char meant[PATH_MAX] = "nothing";
        bool found = vp_nearest_path(cases[i].typed, meant, sizeof(meant));

        if (found != (cases[i].meant != NULL) ||
            (found && strcmp(meant, cases[i].meant) != 0))
            fail_msg("'%s': '%s', not '%s'", cases[i].typed,
                     found ? meant : "nothing",
                     cases[i].meant ? cases[i].meant : "nothing");
    }
}

static void test_long_paths(void **state)
{
    char path[2 * PATH_MAX], out[8] = "";

    (void)state;
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_false(vp_nearest_path(path, out, sizeof(out)));
    path[1] = '/';
    assert_false(vp_nearest_path(path, out, sizeof(out)));
    /* What does not fit is not said. */
    assert_false(vp_nearest_path("configs/gpt.yml", out, sizeof(out)));
}

static void test_paths_in_messages(void **state)
{
    struct vp_config config;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_config_load("configs/gpt.yml", NULL, 0, &config, &err),
                     VP_ERR_IO);
    assert_string_equal(err.text, "configs/gpt.yml: cannot be opened: No such "
                                  "file or directory; did you mean "
                                  "'configs/gpt2.yml'?");
    vp_config_release(&config);
    assert_string_equal(
        refused("model_type: bert\ndata_dir: dta/books\n", NULL),
        "a.yml:2: key 'data_dir' names 'dta/books', which "
        "cannot be read: No such file or directory; generate "
        "data with --set synthetic_data=true, or did you mean "
        "'data/books'?");
    assert_string_equal(refused(NINE, "partition=pln.json"),
                        "--set: key 'partition': pln.json: cannot be opened: "
                        "No such file or directory; did you mean "
                        "'plan.json'?");
    assert_string_equal(refused(NINE, "config=pln.json"),
                        "--set: key 'config': pln.json: cannot be opened: No "
                        "such file or directory; did you mean 'plan.json'?");
    assert_string_equal(refused(NINE "config_file: pln.json\n", NULL),
                        "a.yml:3: key 'config_file': pln.json: cannot be "
                        "opened: No such file or directory; did you mean "
                        "'plan.json'?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_keys),
        cmocka_unit_test(test_names_of_options),
        cmocka_unit_test(test_own_keys_are_none),
        cmocka_unit_test(test_remedies_are_keys),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_nearest_path),
        cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_paths_in_messages),
    };

    return cmocka_run_group_tests_name("names", tests, enter_temp_folder,
                                       leave_temp_folder);
}
