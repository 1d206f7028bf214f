/* For keys, options, values and paths that are mistyped or come from other
 * programs, the message names the right one. */
#include "base/nearest.h"
#include "config/config.h"
#include "config/hints.h"
#include "config/key.h"
#include "config/keys.h"
#include "config/load.h"
#include "lib/configlib.h"

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

/* ---- Helpers; all files are in one temporary folder --------------------- */

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

/* Writes `yaml` to a.yml and loads it with --set `set`. Returns the error
 * message. */
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

/* A key of another program that has another name here. */
#define SAME(name, key)                                                   \
    {                                                                     \
        name, "use '" key "'", "use '" key "'", "use '--set " key "=...'" \
    }
#define NOTED(name, key, note)                                        \
    {                                                                 \
        name, "use '" key "' (" note ")", "use '" key "' (" note ")", \
            "use '--set " key "=...' (" note ")"                      \
    }
#define ALL(name, remedy)            \
    {                                \
        name, remedy, remedy, remedy \
    }
#define OR_FLAG(name, key, flag)                                 \
    {                                                            \
        name, "use '" key "'", "use '" key "'", "use '" flag "'" \
    }

/* The remedy for a key in a file, in --set and as an option. */
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
    /* Megatron-LM */
    SAME("pipeline_model_parallel_size", "stages"),
    NOTED("tensor_model_parallel_size", "mp_size",
          "ranks that share each operator"),
    NOTED("virtual_pipeline_model_parallel_size", "chunks",
          "with schedule interleaved"),
    SAME("num_layers", "layers"),
    SAME("hidden_size", "hidden"),
    SAME("ffn_hidden_size", "ffn"),
    SAME("num_attention_heads", "heads"),
    SAME("max_position_embeddings", "positions"),
    NOTED("global_batch_size", "accumulation_steps",
          "minibatches of batch_size samples in an update"),
    OR_FLAG("train_iters", "total_steps", "--max-steps N"),
    SAME("lr_decay_style", "learning_rate_policy"),
    NOTED("lr_warmup_iters", "lr_warmup", "a share of all steps"),
    SAME("save_interval", "checkpoint_every"),
    SAME("eval_interval", "eval_every"),
    SAME("eval_iters", "eval_batches"),
    SAME("log_interval", "print_frequency"),
    SAME("clip_grad", "grad_clip"),
    SAME("adam_beta1", "beta1"),
    SAME("data_path", "data_dir"),
    ALL("load", "use '--resume DIR' (a checkpoint that vpipe wrote)"),
    { "recompute_granularity",
      "use 'recompute_ratio: 1' (or a smaller share of each stage)",
      "use 'recompute_ratio=1' (or a smaller share of each stage)",
      "use '--set recompute_ratio=1' (or a smaller share of each stage)" },
    ALL("use_distributed_optimizer",
        "remove it: stages hold whole weights and moments"),
    /* DeepSpeed */
    NOTED("train_batch_size", "batch_size",
          "an update takes accumulation_steps minibatches"),
    SAME("train_micro_batch_size_per_gpu", "batch_size"),
    SAME("gradient_clipping", "grad_clip"),
    SAME("steps_per_print", "print_frequency"),
    SAME("pp_size", "stages"),
    ALL("local_rank", "remove it: mpirun, srun or machines number the ranks"),
    /* Hugging Face Trainer */
    SAME("per_device_train_batch_size", "batch_size"),
    SAME("lr_scheduler_type", "learning_rate_policy"),
    SAME("warmup_ratio", "lr_warmup"),
    SAME("max_grad_norm", "grad_clip"),
    SAME("save_steps", "checkpoint_every"),
    SAME("save_total_limit", "keep_checkpoints"),
    SAME("logging_steps", "print_frequency"),
    SAME("eval_steps", "eval_every"),
    SAME("adam_epsilon", "eps"),
    OR_FLAG("output_dir", "log_directory", "--output DIR"),
    ALL("resume_from_checkpoint", "use '--resume DIR'"),
    ALL("report_to",
        "remove it: metrics.jsonl in the run folder has every step"),
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
    /* Options with the name of a key. */
    check_flag("--device", "use '--set device=...'");
    check_flag("--epochs", "use '--set epochs=...'");
    check_flag("--batch-size", "use '--set batch_size=...'");
    check_flag("--xyzzy", NULL);
    check_flag("--", NULL);
}

/* A key of vpipe gets no hint for files or --set. */
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

/* Values of other programs. */
static void test_words(void **state)
{
    static const struct {
        const char *set, *remedy;
    } cases[] = {
        { "device=gpu", "not 'gpu'; use 'cuda'" },
        { "device=GPU", "not 'GPU'; use 'cuda'" },
        { "device=nvidia", "not 'nvidia'; use 'cuda'" },
        { "device=gpu:1",
          "not 'gpu:1'; numbers of GPUs belong to machines, one "
          "entry per rank, for example ['localhost:1']" },
        { "device=cup", "not 'cup'; did you mean 'cpu'?" },
        { "precision=bfloat16", "not 'bfloat16'; use 'bf16'" },
        { "precision=16", "not '16'; use 'fp16'" },
        { "sync_mode=sync", "not 'sync'; use 'bsp'" },
        { "activation=gelu_new", "not 'gelu_new'; use 'gelu_tanh'" },
        { "schedule=zero-bubble", "not 'zero-bubble'; use 'zb-h1'" },
        { "learning_rate_policy=linear",
          "not 'linear'; use 'polynomial' (the square root of the share of "
          "steps left)" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *said = refused("model_type: bert\n", cases[i].set);

        if (!strstr(said, cases[i].remedy))
            fail_msg("%s: %s", cases[i].set, said);
    }
}

/* Returns the text after "use '", up to a character of `stop`. */
static const char *used(const char *remedy, const char *stop)
{
    static char text[64];

    snprintf(text, sizeof(text), "%.*s", (int)strcspn(remedy + 5, stop),
             remedy + 5);
    return text;
}

/* Every remedy names an existing key, value or option, or says to remove the
 * key. */
static void test_remedies_exist(void **state)
{
    const char *name, *of;

    (void)state;
    for (int i = 0; (name = vp_hint_at(i, &of)); i++) {
        char remedy[256] = "";
        bool found = of ? vp_hint_word(of, name, remedy, sizeof(remedy))
                        : vp_hint(VP_HINT_SET, name, remedy, sizeof(remedy));

        assert_true(found && strlen(remedy) < sizeof(remedy) - 1);
        if (strncmp(remedy, "use '", 5) != 0)
            assert_memory_equal(remedy, "remove it: ", 11);
        else if (of)
            assert_true(vp_key_find(of)->type == VP_KEY_MODEL
                            ? vp_model_find(used(remedy, "'")) != NULL
                            : vp_key_find_word(vp_key_find(of),
                                               used(remedy, "'")) >= 0);
        else if (remedy[5] != '-' && !vp_key_find(used(remedy, "'=")))
            fail_msg("%s: %s", name, remedy);
        for (int k = 0; k < i; k++) {
            const char *before_of, *before = vp_hint_at(k, &before_of);

            if (strcmp(before, name) == 0 &&
                strcmp(before_of ? before_of : "", of ? of : "") == 0)
                fail_msg("%s stands twice", name);
        }
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
    /* One number is no list for partition, and one value for all stages for
     * recompute_ratio. */
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
    /* Quoted numbers are text, and so is a path with a comma. */
    assert_non_null(strstr(refused(NINE "partition: '2,2,5'\n", NULL),
                           "2,2,5: cannot be opened"));
    assert_non_null(strstr(refused(NINE, "partition=plans/a,b.json"),
                           "plans/a,b.json: cannot be opened"));
}

/* ---- Paths -------------------------------------------------------------- */

static void test_nearest_path(void **state)
{
    static const struct {
        const char *typed, *meant; /* NULL: no path is near */
    } cases[] = {
        { "configs/gpt.yml", "configs/gpt2.yml" },
        { "configs/bert_tny.yml", "configs/bert_tiny.yml" },
        { "configs/BERT-tiny.yml", "configs/bert_tiny.yml" },
        { "configs/bert_tiny.yaml", "configs/bert_tiny.yml" },
        { "configs/bert_tiny", "configs/bert_tiny.yml" },
        /* The first in the alphabet of two equally near names. */
        { "configs/bert_tixy.yml", "configs/bert_tidy.yml" },
        { "confgs/gpt2.yml", "configs/gpt2.yml" },
        { "./confgs/gpt.yml", "./configs/gpt2.yml" },
        { "dta/boks", "data/books" },
        { "dta/xyzzy", "data" },
        { "pln.json", "plan.json" },
        /* A common ending does not make short names near. */
        { "x.yml", NULL },
        { "none.yml", NULL },
        { "configs/xyzzy.yml", NULL },
        { "hidden", NULL },
        { ".hiden", ".hidden" },
        /* An existing path, a dangling link, a file as a folder, no path. */
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
    /* A result longer than `out` is not returned. */
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
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_remedies_exist),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_nearest_path),
        cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_paths_in_messages),
    };

    return cmocka_run_group_tests_name("names", tests, enter_temp_folder,
                                       leave_temp_folder);
}
