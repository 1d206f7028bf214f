/* Configurations: what is read, what is refused with which line, defaults,
 * and that what is written reads back. */
#include "backend/facts.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/value.h"
#include "base/yaml.h"
#include "config/config.h"
#include "config/key.h"
#include "config/keys.h"
#include "config/load.h"
#include "config/schedule_file.h"

#include "base/rng.h"
#include "runtime/state.h"
#include "sched/schedule.h"

#include <errno.h>
#include <fcntl.h>
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

#define TOKENIZERS VP_SOURCE_DIR "/tests/golden/tokenizers/"

#include "config_cases.h"
#include "lib/configlib.h"

/* ---- Helpers: all files live in one temporary folder -------------------- */

static char temp_folder[] = "/tmp/vpipe_config_XXXXXX";

static int enter_temp_folder(void **state)
{
    (void)state;
    if (!mkdtemp(temp_folder) || chdir(temp_folder) != 0)
        return -1;
    return mkdir("sub", 0700) | mkdir("data", 0700);
}

static int leave_temp_folder(void **state)
{
    static const char *const files[] = { "a.yml",         "b.yml",
                                         "c.yml",         "gpt2.json",
                                         "sub/a.yml",     "sub/gpt2.json",
                                         "sub/plan.json", "sub/ranks.json" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(files); i++)
        unlink(files[i]);
    rmdir("sub/data");
    rmdir("sub");
    rmdir("data");
    return chdir("/") | rmdir(temp_folder);
}

/* A new file each time: some file systems wait for the disk when one is cut
 * and written again. */
static void write_bytes(const char *path, const char *bytes, size_t n)
{
    FILE *file;

    unlink(path);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 16384);

    assert_non_null(file);
    assert_non_null(text);
    assert_in_range(fread(text, 1, 16383, file), 1, 16382);
    fclose(file);
    return text;
}

/* Loads `yaml` as a.yml, with at most one --set; the message is "" if all is
 * well. */
static enum vp_status load(const char *yaml, const char *set,
                           struct vp_config *out, struct vp_err *err)
{
    write_text("a.yml", yaml);
    *err = (struct vp_err){ .text = "" };
    return vp_config_load("a.yml", &set, set ? 1 : 0, out, err);
}

static void load_ok(const char *yaml, const char *set, struct vp_config *out)
{
    struct vp_err err;

    if (load(yaml, set, out, &err) != VP_OK)
        fail_msg("%s\n%s", err.text, yaml);
}

/* ---- YAML --------------------------------------------------------------- */

static void parse(const char *text, struct vp_arena *arena,
                  const struct vp_yaml_node **root)
{
    struct vp_err err = { .text = "" };

    if (vp_yaml_parse("t", text, strlen(text), arena, root, &err) != VP_OK)
        fail_msg("%s\n%s", text, err.text);
}

static void test_yaml_tree(void **state)
{
    struct vp_arena arena = { 0 };
    const struct vp_yaml_node *root, *a, *b, *c;

    (void)state;
    parse("# comment\n"
          "a: 1\n"
          "  \n"
          "long key:   \"quoted: text\"\n"
          "list:\n"
          "  - x\n"
          "  - {y: 2, z: []}\n",
          &arena, &root);
    assert_int_equal(root->kind, VP_YAML_MAP);
    a = root->child;
    b = a->next;
    c = b->next;
    assert_null(c->next);

    assert_string_equal(a->key, "a");
    assert_string_equal(a->text, "1");
    assert_false(a->quoted);
    assert_int_equal(a->key_line, 2);
    assert_int_equal(a->key_column, 1);
    assert_int_equal(a->line, 2);
    assert_int_equal(a->column, 4);

    assert_string_equal(b->key, "long key");
    assert_string_equal(b->text, "quoted: text");
    assert_true(b->quoted);
    assert_int_equal(b->line, 4);
    assert_int_equal(b->column, 13);

    assert_int_equal(c->kind, VP_YAML_LIST);
    assert_int_equal(c->key_line, 5);
    assert_int_equal(c->line, 6);
    assert_string_equal(c->child->text, "x");
    assert_null(c->child->key);
    assert_int_equal(c->child->next->kind, VP_YAML_MAP);
    assert_string_equal(c->child->next->child->key, "y");
    assert_int_equal(c->child->next->child->column, 9);
    assert_int_equal(c->child->next->child->next->kind, VP_YAML_LIST);
    assert_null(c->child->next->child->next->child);
    assert_null(c->child->next->next);
    vp_arena_release(&arena);
}

static void test_yaml_printable(void **state)
{
    (void)state;
    assert_true(vp_yaml_printable(""));
    assert_true(vp_yaml_printable("daten/b\xC3\xBC"
                                  "cher \xE2\x80\x93 1"));
    assert_false(vp_yaml_printable("a\nb"));
    assert_false(vp_yaml_printable("a\x1b[1m"));
    assert_false(vp_yaml_printable("a\x7f"));
    assert_false(vp_yaml_printable("a\xC2\x85"));
    assert_false(vp_yaml_printable("a\xE2\x80\xA8"));
    assert_false(vp_yaml_printable("a\xE2\x80\xA9"));
}

/* "[[[...": `depth` lists inside each other. */
static enum vp_status parse_nested(int depth, struct vp_err *err)
{
    struct vp_arena arena = { 0 };
    const struct vp_yaml_node *root;
    char text[2 * 4096];
    enum vp_status st;

    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    st = vp_yaml_parse("t", text, 2 * (size_t)depth, &arena, &root, err);
    vp_arena_release(&arena);
    return st;
}

static void test_yaml_limits(void **state)
{
    struct vp_arena arena = { 0 };
    const struct vp_yaml_node *root;
    struct vp_err err = { .text = "" };
    char *big = malloc(VP_FILE_MAX_BYTES + 2);

    (void)state;
    assert_int_equal(parse_nested(VP_YAML_MAX_DEPTH, &err), VP_OK);
    assert_int_equal(parse_nested(VP_YAML_MAX_DEPTH + 1, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "t:1:17: too many levels inside each other; "
                                  "a configuration needs two");
    assert_int_equal(parse_nested(4096, &err), VP_ERR_INVALID);

    assert_non_null(big);
    memset(big, '\n', VP_FILE_MAX_BYTES + 1);
    write_bytes("a.yml", big, VP_FILE_MAX_BYTES + 1);
    assert_int_equal(vp_yaml_read("a.yml", &arena, &root, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text, "a.yml: is larger than 256 kB; give a "
                                  "configuration, not data");

    /* One list with more entries than allowed: "[,1,1,1...". */
    for (size_t i = 0; i < VP_FILE_MAX_BYTES; i++)
        big[i] = i % 2 ? '1' : ',';
    big[0] = '[';
    assert_int_equal(
        vp_yaml_parse("t", big, VP_FILE_MAX_BYTES, &arena, &root, &err),
        VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "the file has too many entries"));

    memset(big, 'x', VP_YAML_MAX_SCALAR + 1);
    assert_int_equal(
        vp_yaml_parse("t", big, VP_YAML_MAX_SCALAR, &arena, &root, &err),
        VP_OK);
    assert_int_equal(
        vp_yaml_parse("t", big, VP_YAML_MAX_SCALAR + 1, &arena, &root, &err),
        VP_ERR_INVALID);
    assert_string_equal(err.text, "t:1:1: this text is too long; shorten it");
    free(big);
    vp_arena_release(&arena);
}

/* ---- Values ------------------------------------------------------------- */

static void test_whole_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t want;
    } good[] = {
        { "0", 0 },
        { "8", 8 },
        { "-8", -8 },
        { "+8", 8 },
        { "-0", 0 },
        { "9223372036854775807", INT64_MAX },
        { "-9223372036854775808", INT64_MIN },
    };
    static const char *const bad[] = {
        "",
        " 8",
        "8 ",
        "8.5",
        "8.",
        "1e3",
        "0x10",
        "08",
        "1_0",
        "--8",
        "+",
        "-",
        "8k",
        "x",
        "\xD9\xA3",
        "9223372036854775808",
        "-9223372036854775809",
        "100000000000000000000000000000000000000000",
    };
    int64_t value = 77;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(good); i++) {
        assert_true(vp_text_to_i64(good[i].text, &value));
        assert_true(value == good[i].want);
    }
    value = 77;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++)
        if (vp_text_to_i64(bad[i], &value))
            fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(value, 77);
}

static void test_real_numbers(void **state)
{
    static const struct {
        const char *text;
        double want;
    } good[] = {
        { "0", 0.0 },     { "0.1", 0.1 },     { ".5", 0.5 },
        { "1.", 1.0 },    { "5e-5", 5e-5 },   { "1E3", 1000.0 },
        { "-2.5", -2.5 }, { "+1e+2", 100.0 }, { "1e-400", 0.0 },
        { "007", 7.0 },
    };
    static const char *const bad[] = {
        "",    ".",     "e5",     "1e",  "1e+", "nan", ".nan",
        "inf", ".inf",  "0x1p3",  " 1",  "1 ",  "1,5", "1_0",
        "--1", "1e400", "-1e400", "yes", "1f",
    };
    double value = 77.0;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(good); i++) {
        assert_true(vp_text_to_real(good[i].text, &value));
        assert_true(value == good[i].want);
    }
    value = 77.0;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++)
        if (vp_text_to_real(bad[i], &value))
            fail_msg("'%s' was taken", bad[i]);
    assert_true(value == 77.0);
}

static void test_bools_and_bytes(void **state)
{
    static const char *const no_bytes[] = {
        "",      "G",  "11g",  "11GB", "11 G",   "-1",    "+1G",
        "1e400", "1P", "11Gi", "0x10", "9.1e15", "9000T", "11iB",
    };
    int64_t bytes;
    bool flag;

    (void)state;
    assert_true(vp_text_to_bool("true", &flag) && flag);
    assert_true(vp_text_to_bool("Yes", &flag) && flag);
    assert_true(vp_text_to_bool("ON", &flag) && flag);
    assert_true(vp_text_to_bool("False", &flag) && !flag);
    assert_true(vp_text_to_bool("off", &flag) && !flag);
    assert_false(vp_text_to_bool("1", &flag));
    assert_false(vp_text_to_bool("tRue", &flag));
    assert_false(vp_text_to_bool("", &flag));

    assert_true(vp_text_to_bytes("4096", &bytes) && bytes == 4096);
    assert_true(vp_text_to_bytes("3K", &bytes) && bytes == 3072);
    assert_true(vp_text_to_bytes("512M", &bytes) && bytes == 536870912);
    assert_true(vp_text_to_bytes("11G", &bytes) && bytes == 11811160064);
    assert_true(vp_text_to_bytes("11GiB", &bytes) && bytes == 11811160064);
    assert_true(vp_text_to_bytes("1.5G", &bytes) && bytes == 1610612736);
    assert_true(vp_text_to_bytes("2T", &bytes) && bytes == 2199023255552);
    for (size_t i = 0; i < VP_COUNT_OF(no_bytes); i++)
        if (vp_text_to_bytes(no_bytes[i], &bytes))
            fail_msg("'%s' was taken", no_bytes[i]);
}

static void test_floats_print_shortest(void **state)
{
    char text[32];

    (void)state;
    vp_float_to_text(0.1f, text, sizeof(text));
    assert_string_equal(text, "0.1");
    vp_float_to_text(0.0f, text, sizeof(text));
    assert_string_equal(text, "0");
    vp_float_to_text(1e-12f, text, sizeof(text));
    assert_string_equal(text, "1e-12");
    for (uint32_t i = 0; i < 2000; i++) {
        float value = (float)vp_rng_unit(
            vp_rng(1, VP_RNG_TEST, 0, i, 0, 0).v[0]);

        vp_float_to_text(value, text, sizeof(text));
        assert_true((float)strtod(text, NULL) == value);
    }
}

/* ---- Nearest ------------------------------------------------------------ */

static void test_edit_distance(void **state)
{
    static const struct {
        const char *a, *b;
        int want;
    } cases[] = {
        { "", "", 0 },
        { "", "abc", 3 },
        { "abc", "abc", 0 },
        { "abc", "acb", 1 },
        { "abc", "abd", 1 },
        { "abc", "ab", 1 },
        { "kitten", "sitting", 3 },
        { "ca", "abc", 3 },
        { "ab", "ba", 1 },
        { "flaw", "lawn", 2 },
    };
    char longest[80];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        assert_int_equal(vp_edit_distance(cases[i].a, cases[i].b),
                         cases[i].want);
        assert_int_equal(vp_edit_distance(cases[i].b, cases[i].a),
                         cases[i].want);
    }
    memset(longest, 'x', sizeof(longest));
    longest[63] = 0;
    assert_int_equal(vp_edit_distance(longest, ""), 63);
    longest[63] = 'x';
    longest[64] = 0;
    assert_int_equal(vp_edit_distance(longest, ""), INT_MAX);
}

static void test_nearest(void **state)
{
    static const char *const names[] = { "macrobatch", "batch_size", "a_b_c",
                                         "hidden", "layers" };
    const int n = VP_COUNT_OF(names);

    (void)state;
    assert_int_equal(vp_nearest("batch", names, n), 1);
    assert_int_equal(vp_nearest("A-B-C", names, n), 2);
    assert_int_equal(vp_nearest("num_hidden_layers", names, n), 4);
    assert_int_equal(vp_nearest("num_hidden_things", names, n), 3);
    assert_int_equal(vp_nearest("ba", names, n), -1);
    assert_int_equal(vp_nearest("", names, n), -1);
    assert_int_equal(vp_nearest("batch", names, 0), -1);
}

static void test_nearest_key(void **state)
{
    static const struct {
        const char *typed, *meant; /* NULL: nothing near */
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
        assert_int_equal(load(yaml, NULL, &config, &err), VP_ERR_INVALID);
        assert_string_equal(err.text, want);
        vp_config_release(&config);
    }
}

/* ---- Refused configurations --------------------------------------------- */

static void check_refused(const struct refused *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct vp_config config;
        struct vp_err err;

        if (load(cases[i].yaml, cases[i].set, &config, &err) == VP_OK)
            fail_msg("taken:\n%s", cases[i].yaml);
        if (strcmp(err.text, cases[i].want) != 0)
            fail_msg("%s\n  got:  %s\n  want: %s", cases[i].yaml, err.text,
                     cases[i].want);
        vp_config_release(&config);
    }
}

static void test_refuses_yaml(void **state)
{
    (void)state;
    check_refused(not_yaml, VP_COUNT_OF(not_yaml));
}

static void test_refuses_keys(void **state)
{
    (void)state;
    check_refused(bad_keys, VP_COUNT_OF(bad_keys));
}

static void test_refuses_values(void **state)
{
    (void)state;
    check_refused(bad_values, VP_COUNT_OF(bad_values));
}

static const char gpt2_json[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 100, \"n_embd\": 32,\n"
    " \"n_layer\": 3, \"n_head\": 4, \"n_positions\": 64, \"n_ctx\": 64,\n"
    " \"embd_pdrop\": 0.0, \"resid_pdrop\": 0.0, \"attn_pdrop\": 0.25,\n"
    " \"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-6}\n";

static const char bert_json[] =
    "{\"vocab_size\": 100, \"hidden_size\": 32, \"num_hidden_layers\": 3,\n"
    " \"num_attention_heads\": 4, \"intermediate_size\": 64,\n"
    " \"hidden_act\": \"gelu\", \"max_position_embeddings\": 64,\n"
    " \"type_vocab_size\": 2, \"initializer_range\": 0.02}\n";

static void test_refuses_combinations(void **state)
{
    (void)state;
    write_text("gpt2.json", gpt2_json);
    check_refused(bad_together, VP_COUNT_OF(bad_together));
}

static void test_refuses_pipelines(void **state)
{
    (void)state;
    check_refused(bad_pipelines, VP_COUNT_OF(bad_pipelines));
}

static void test_refuses_files(void **state)
{
    struct vp_config config;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_config_load("no.yml", NULL, 0, &config, &err),
                     VP_ERR_IO);
    assert_string_equal(err.text, "no.yml: cannot be opened: No such file or "
                                  "directory; check the path");
    vp_config_release(&config);
    assert_int_equal(vp_config_load("sub", NULL, 0, &config, &err), VP_ERR_IO);
    assert_string_equal(err.text, "sub: cannot be read: Is a directory; give "
                                  "a YAML file");
    vp_config_release(&config);
    assert_int_equal(vp_config_load("a\nb", NULL, 0, &config, &err),
                     VP_ERR_INVALID);
    assert_null(strchr(err.text, '\n'));
    vp_config_release(&config);
    vp_config_release(&config); /* harmless */
}

/* ---- Accepted configurations -------------------------------------------- */

static void test_only_model_type(void **state)
{
    static const struct {
        const char *yaml;
        enum vp_optim_kind optim;
        int64_t batch_size, max_pred;
        float lr;
    } cases[] = {
        { "model_type: bert\n", VP_OPTIM_LAMB, 8, 20, 2e-3f },
        { "model_type: gpt2\n", VP_OPTIM_ADAMW, 8, 0, 5e-4f },
        { "model_type: cpm\n", VP_OPTIM_ADAMW, 8, 0, 5e-4f },
        { "model_type: translation\n", VP_OPTIM_ADAM, 2560, 0, 5e-4f },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config c;

        load_ok(cases[i].yaml, NULL, &c);
        assert_memory_equal(&c.sizes, &c.model->sizes[0].config,
                            sizeof(c.sizes));
        assert_null(c.data_dir);
        assert_true(c.synthetic_data);
        assert_int_equal(c.data_format, VP_FORMAT_AUTO);
        assert_null(c.valid_split);
        assert_int_equal(c.document_end, -1);
        assert_string_equal(c.text_key, "text");
        assert_false(c.replace_invalid_utf8);
        assert_int_equal(c.seq_length, 128);
        assert_int_equal(c.batch_size, cases[i].batch_size);
        assert_int_equal(c.max_pred, cases[i].max_pred);
        assert_int_equal(c.seed, 1);
        assert_int_equal(c.prefetch, 2);
        assert_int_equal(c.optim.kind, cases[i].optim);
        assert_true(c.lr.base == cases[i].lr);
        assert_int_equal(c.lr.policy, VP_LR_POLYNOMIAL);
        assert_true(c.lr.warmup == 0.2f);
        assert_int_equal(c.epochs, 1);
        assert_int_equal(c.total_steps, 0);
        assert_int_equal(c.sync_mode, VP_SYNC_BSP);
        assert_string_equal(vp_generator_at(c.schedule)->name, "1f1b");
        assert_int_equal(c.stages, 1);
        assert_int_equal(c.chunks, 1);
        assert_int_equal(c.partition.n, 0);
        assert_int_equal(c.recompute_ratio.n, 0);
        assert_int_equal(c.replicas.n, 0);
        assert_int_equal(c.warmup_depths.n, 0);
        assert_true(c.early_recompute);
        assert_false(c.clip_per_stage);
        assert_int_equal(c.accumulation_steps, 1);
        assert_int_equal(c.watchdog_seconds, 60);
        assert_int_equal(c.device, VP_DEVICE_KIND_AUTO);
        assert_int_equal(c.threads_per_stage, 0);
        assert_false(c.reference_kernels);
        assert_int_equal(c.memory_limit, 0);
        assert_string_equal(c.log_directory, "runs");
        assert_int_equal(c.eval_every, 0);
        assert_int_equal(c.print_frequency, 10);
        assert_null(c.directory);
        assert_null(c.module);
        assert_null(c.container);
        assert_null(c.placement);
        assert_false(c.no_input_pipelining);
        assert_true(c.recompute);
        assert_int_equal(c.num_minibatches, 0);
        assert_int_equal(c.ranks.n, 0);
        assert_int_equal(c.mp_size, 1);
        assert_false(c.compress_activations);
        assert_false(c.shard_optimizer);
        assert_false(c.compress_in_gpu);
        assert_int_equal(c.distributed_backend, VP_TRANSPORT_LOCAL);
        assert_int_equal(c.machines.n, 0);
        assert_false(c.forward_only);
        assert_int_equal(c.checkpoint_every, 1000);
        assert_int_equal(c.keep_checkpoints, 3);
        assert_int_equal(c.verbose, 0);
        assert_int_equal(c.verbose_frequency, 0);
        assert_int_equal(c.n_notices, 0);
        assert_string_equal(vp_config_place(&c, "model_type"), "a.yml:1");
        assert_string_equal(vp_config_place(&c, "layers"), "default");
        vp_config_release(&c);
    }
}

static const char everything[] = "model_type: translation\n"
                                 "size: base\n"
                                 "vocab: 600\n"
                                 "hidden: 48\n"
                                 "layers: 3\n"
                                 "decoder_layers: 2\n"
                                 "heads: 6\n"
                                 "ffn: 100\n"
                                 "max_positions: 256\n"
                                 "dropout: 0.25\n"
                                 "attention_dropout: 0\n"
                                 "label_smoothing: 0.05\n"
                                 "tie_embeddings: no\n"
                                 "activation: gelu_tanh\n"
                                 "norm_eps: 1e-7\n"
                                 "pad_id: 3\n"
                                 "attention_bias: On\n"
                                 "data_dir: data\n"
                                 "data_format: megatron\n"
                                 "valid_split: held\n"
                                 "source_lang: de\n"
                                 "target_lang: en\n"
                                 "required_batch_size_multiple: 24\n"
                                 "document_end: 599\n"
                                 "text_key: body\n"
                                 "synthetic_data: False\n"
                                 "invalid_utf8: replace\n"
                                 "seq_length: 200\n"
                                 "batch_size: 1000\n"
                                 "seed: 9007199254740992\n"
                                 "no_input_pipelining: yes\n"
                                 "prefetch: 0\n"
                                 "num_minibatches: 77\n"
                                 "optimizer: adam\n"
                                 "learning_rate: 1e-3\n"
                                 "learning_rate_policy: 'cosine'\n"
                                 "lr_warmup: 0.125\n"
                                 "weight_decay: 0.5\n"
                                 "beta1: 0.8\n"
                                 "beta2: 0.9\n"
                                 "eps: 1e-9\n"
                                 "grad_clip: 2.5\n"
                                 "epochs: 7\n"
                                 "total_steps: 1000000000000\n"
                                 "sync_mode: bsp\n"
                                 "schedule: zb-h1\n"
                                 "stages: 3\n"
                                 "partition: [4, 8, 3]\n"
                                 "recompute: true\n"
                                 "recompute_ratio:\n"
                                 "  - 0.1\n"
                                 "  - 0.30000000000000004\n"
                                 "  - 1\n"
                                 "early_recompute: no\n"
                                 "mp_size: 1\n"
                                 "replicas: [1, 2, 1]\n"
                                 "ranks: [3, 1, 0, 2]\n"
                                 "warmup_depths: [4, 2, 0]\n"
                                 "accumulation_steps: 5\n"
                                 "grad_clip_scope: stage\n"
                                 "compress_activations: true\n"
                                 "shard_optimizer: true\n"
                                 "compress_in_gpu: True\n"
                                 "device: cpu\n"
                                 "precision: fp32\n"
                                 "loss_scale: 1536\n"
                                 "threads_per_stage: 2\n"
                                 "kernels: reference\n"
                                 "memory_limit: 1.5G\n"
                                 "distributed_backend: gloo\n"
                                 "machines: [a-b.c_9:0, 'localhost:1023',\n"
                                 "           127.0.0.1:2, 'localhost:0']\n"
                                 "container: 'image \"x\\y\"'\n"
                                 "log_directory: /tmp/a \"b\\ c\n"
                                 "forward_only: true\n"
                                 "eval_every: 11\n"
                                 "eval_batches: 3\n"
                                 "checkpoint_every: 13\n"
                                 "keep_checkpoints: 4\n"
                                 "tensorboard: true\n"
                                 "prometheus_file: /tmp/v.prom\n"
                                 "print_frequency: 1\n"
                                 "verbose: versions, tensors\n"
                                 "verbose_frequency: 9\n"
                                 "watchdog_seconds: 7\n";

static void test_every_key(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(everything, NULL, &c);
    assert_string_equal(c.model->name, "translation");
    assert_int_equal(c.sizes.vocab, 600);
    assert_int_equal(c.sizes.hidden, 48);
    assert_int_equal(c.sizes.layers, 3);
    assert_int_equal(c.sizes.decoder_layers, 2);
    assert_int_equal(c.sizes.heads, 6);
    assert_int_equal(c.sizes.ffn, 100);
    assert_int_equal(c.sizes.positions, 256);
    assert_true(c.sizes.dropout == 0.25f);
    assert_true(c.sizes.attention_dropout == 0.0f);
    assert_true(c.sizes.label_smoothing == 0.05f);
    assert_false(c.sizes.tie_embeddings);
    assert_int_equal(c.sizes.act, VP_ACT_GELU_TANH);
    assert_true(c.sizes.eps == 1e-7f);
    assert_int_equal(c.sizes.pad, 3);
    assert_true(c.sizes.attention_bias);
    assert_string_equal(c.data_dir, "data");
    assert_false(c.synthetic_data);
    assert_int_equal(c.data_format, VP_FORMAT_MEGATRON);
    assert_string_equal(c.valid_split, "held");
    assert_string_equal(c.source_lang, "de");
    assert_string_equal(c.target_lang, "en");
    assert_int_equal(c.batch_multiple, 24);
    assert_int_equal(c.document_end, 599);
    assert_string_equal(c.text_key, "body");
    assert_true(c.replace_invalid_utf8);
    assert_int_equal(c.seq_length, 200);
    assert_int_equal(c.batch_size, 1000);
    assert_true(c.seed == 9007199254740992u);
    assert_true(c.no_input_pipelining);
    assert_int_equal(c.prefetch, 0);
    assert_int_equal(c.num_minibatches, 77);
    assert_int_equal(c.optim.kind, VP_OPTIM_ADAM);
    assert_true(c.lr.base == 1e-3f);
    assert_int_equal(c.lr.policy, VP_LR_COSINE);
    assert_true(c.lr.warmup == 0.125f);
    assert_true(c.optim.weight_decay == 0.5f);
    assert_true(c.optim.beta1 == 0.8f);
    assert_true(c.optim.beta2 == 0.9f);
    assert_true(c.optim.eps == 1e-9f);
    assert_true(c.optim.grad_clip == 2.5f);
    assert_int_equal(c.epochs, 7);
    assert_int_equal(c.total_steps, 1000000000000);
    vp_config_release(&c);
}

static void test_every_key_of_the_run(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(everything, NULL, &c);
    assert_int_equal(c.sync_mode, VP_SYNC_BSP);
    assert_string_equal(vp_generator_at(c.schedule)->name, "zb-h1");
    assert_int_equal(c.stages, 3);
    assert_int_equal(c.chunks, 1);
    assert_ints(&c.partition, INTS(4, 8, 3));
    assert_reals(&c.recompute_ratio, REALS(0.1, 0.30000000000000004, 1.0));
    assert_false(c.early_recompute);
    assert_ints(&c.replicas, INTS(1, 2, 1));
    assert_ints(&c.ranks, INTS(3, 1, 0, 2));
    for (int i = 0; i < 4; i++)
        assert_int_equal(vp_config_rank_number(&c, i), c.ranks.at[i]);
    assert_ints(&c.warmup_depths, INTS(4, 2, 0));
    assert_int_equal(c.accumulation_steps, 5);
    assert_true(c.clip_per_stage);
    assert_int_equal(c.watchdog_seconds, 7);
    assert_int_equal(c.device, VP_DEVICE_KIND_CPU);
    assert_int_equal(c.precision, VP_PRECISION_FP32);
    assert_true(c.loss_scale.start == 1536.0f && !c.loss_scale.dynamic);
    assert_int_equal(c.threads_per_stage, 2);
    assert_true(c.reference_kernels);
    assert_int_equal(c.memory_limit, 1610612736);
    assert_true(c.compress_activations);
    assert_true(c.shard_optimizer);
    assert_true(c.compress_in_gpu);
    assert_int_equal(c.distributed_backend, VP_TRANSPORT_GLOO);
    assert_int_equal(c.machines.n, 4);
    assert_string_equal(c.machines.at[0].host, "a-b.c_9");
    assert_int_equal(c.machines.at[0].device, 0);
    assert_string_equal(c.machines.at[1].host, "localhost");
    assert_int_equal(c.machines.at[1].device, 1023);
    assert_string_equal(c.machines.at[2].host, "127.0.0.1");
    assert_string_equal(c.container, "image \"x\\y\"");
    assert_true(c.forward_only);
    assert_int_equal(c.checkpoint_every, 13);
    assert_int_equal(c.keep_checkpoints, 4);
    assert_int_equal(c.verbose,
                     1 << VP_VERBOSE_VERSIONS | 1 << VP_VERBOSE_TENSORS);
    assert_int_equal(c.verbose_frequency, 9);
    assert_true(c.tensorboard);
    assert_string_equal(c.prometheus_file, "/tmp/v.prom");
    assert_string_equal(c.log_directory, "/tmp/a \"b\\ c");
    assert_int_equal(c.eval_every, 11);
    assert_int_equal(c.eval_batches, 3);
    assert_int_equal(c.print_frequency, 1);
    assert_string_equal(vp_config_place(&c, "positions"), "a.yml:9");
    vp_config_release(&c);
}

/* Replaced when a configuration is loaded, by what this machine multiplies faster,
 * or by what all ranks have agreed on. */
static void test_precision_auto(void **state)
{
    static const char text[] = BERT "precision: auto\ndevice: cpu\n";
    static const enum vp_precision agreed[] = { VP_PRECISION_FP32,
                                                VP_PRECISION_BF16 };
    struct vp_config_source from = { .path = "a.yml",
                                     .bytes = text,
                                     .n_bytes = strlen(text) };
    struct vp_config c;

    (void)state;
    load_ok(BERT "precision: auto\ndevice: cuda\n", NULL, &c);
    assert_int_equal(c.precision, VP_PRECISION_BF16);
    vp_config_release(&c);
    load_ok(BERT "precision: auto\ndevice: cpu\n", NULL, &c);
    assert_int_equal(c.precision, vp_cores_prefer_bf16() ? VP_PRECISION_BF16
                                                         : VP_PRECISION_FP32);
    assert_true(c.precision_is_auto);
    vp_config_release(&c);
    for (size_t i = 0; i < VP_COUNT_OF(agreed); i++) {
        from.precision = &agreed[i];
        assert_int_equal(vp_config_load_from(&from, &c, NULL), VP_OK);
        assert_int_equal(c.precision, agreed[i]);
        assert_true(c.precision_is_auto);
        vp_config_release(&c);
    }
    from.bytes = BERT "precision: fp32\ndevice: cpu\n";
    from.n_bytes = strlen(from.bytes);
    assert_int_equal(vp_config_load_from(&from, &c, NULL), VP_OK);
    assert_int_equal(c.precision, VP_PRECISION_FP32);
    assert_false(c.precision_is_auto);
    vp_config_release(&c);
    assert_int_equal(setenv("VPIPE_ISA", "plain", 1), 0);
    load_ok(BERT "precision: auto\ndevice: cpu\n", NULL, &c);
    assert_int_equal(c.precision, VP_PRECISION_FP32);
    vp_config_release(&c);
    load_ok(BERT, NULL, &c);
    assert_int_equal(c.precision, VP_PRECISION_FP32);
    vp_config_release(&c);
    assert_int_equal(unsetenv("VPIPE_ISA"), 0);
}

static void test_derived_defaults(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(BERT "hidden: 64\nheads: 2\ndropout: 0.3\nseq_length: 512\n", NULL,
            &c);
    assert_int_equal(c.sizes.ffn, 256);
    assert_true(c.sizes.attention_dropout == 0.3f);
    assert_int_equal(c.max_pred, 80);
    vp_config_release(&c);

    load_ok(BERT "positions: 5\n", NULL, &c);
    assert_int_equal(c.seq_length, 5);
    assert_int_equal(c.max_pred, 1);
    vp_config_release(&c);

    load_ok("model_type: translation\nlayers: 2\n", NULL, &c);
    assert_int_equal(c.sizes.decoder_layers, 2);
    vp_config_release(&c);

    load_ok("model_type: gpt2\noptimizer: sgd\n", NULL, &c);
    assert_true(c.lr.base == 0.1f);
    assert_true(c.optim.beta1 == 0.9f);
    vp_config_release(&c);

    load_ok(BERT "learning_rate_policy: constant\n", NULL, &c);
    assert_true(c.lr.warmup == 0.0f);
    vp_config_release(&c);
    load_ok(BERT "learning_rate_policy: constant\nlr_warmup: true\n", NULL, &c);
    assert_true(c.lr.warmup == 0.2f);
    vp_config_release(&c);
    load_ok(BERT "precision: fp16\n", NULL, &c);
    assert_true(c.loss_scale.start == 65536.0f && c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "precision: fp16\nloss_scale: off\n", NULL, &c);
    assert_true(c.loss_scale.start == 0.0f && !c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "precision: fp16\nloss_scale: 0\n", NULL, &c);
    assert_true(c.loss_scale.start == 0.0f && !c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "loss_scale: dynamic\n", NULL, &c);
    assert_true(c.loss_scale.start == 65536.0f && c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "loss_scale: \"dynamic\"\n", NULL, &c);
    assert_true(c.loss_scale.start == 65536.0f && c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "precision: fp16\nloss_scale: 'off'\n", NULL, &c);
    assert_true(c.loss_scale.start == 0.0f && !c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "sync_mode: asp\nloss_scale: 1e30\n", NULL, &c);
    assert_true(c.loss_scale.start == 1e30f && !c.loss_scale.dynamic);
    vp_config_release(&c);
    load_ok(BERT "checkpoint_every: epoch\n", NULL, &c);
    assert_int_equal(c.checkpoint_every, VP_EVERY_EPOCH);
    vp_config_release(&c);
    load_ok(BERT "checkpoint_every: 'epoch'\n", NULL, &c);
    assert_int_equal(c.checkpoint_every, VP_EVERY_EPOCH);
    vp_config_release(&c);
    load_ok(BERT "checkpoint_every: 0\n", NULL, &c);
    assert_int_equal(c.checkpoint_every, 0);
    vp_config_release(&c);
    load_ok(BERT "lr_warmup: false\n", NULL, &c);
    assert_true(c.lr.warmup == 0.0f);
    vp_config_release(&c);

    /* Statistics: one key without the other. */
    load_ok(BERT "verbose: [time]\nverbose_frequency: 0\n"
                 "print_frequency: 7\n",
            NULL, &c);
    assert_int_equal(c.verbose_frequency, 7);
    vp_config_release(&c);
    load_ok(BERT "verbose_frequency: 5\n", NULL, &c);
    assert_int_equal(c.verbose_frequency, 5);
    assert_int_equal(c.verbose,
                     1 << VP_VERBOSE_COMMUNICATION | 1 << VP_VERBOSE_TIME);
    vp_config_release(&c);
    load_ok(BERT "no_input_pipelining: true\n", NULL, &c);
    assert_int_equal(c.prefetch, 0);
    vp_config_release(&c);
    load_ok(BERT "no_input_pipelining: false\nprefetch: 5\n", NULL, &c);
    assert_int_equal(c.prefetch, 5);
    vp_config_release(&c);

    /* Generated data wins over files that were named, as in the original. */
    load_ok(BERT "data_dir: nowhere\nsynthetic_data: true\n", NULL, &c);
    assert_true(c.synthetic_data);
    vp_config_release(&c);
    load_ok(BERT "data_dir: data\n", NULL, &c);
    assert_false(c.synthetic_data);
    vp_config_release(&c);
}

static const char *schedule_name(const struct vp_config *config)
{
    return vp_generator_at(config->schedule)->name;
}

/* 2000 ids; a vocabulary may have room to spare. */
static void test_vocabulary_of_a_tokenizer(void **state)
{
    static const char yaml[] = "model_type: gpt2\n"
                               "tokenizer: " TOKENIZERS "gpt2\n";
    static const char pairs[] = "model_type: translation\n"
                                "tokenizer: " TOKENIZERS "gpt2\n";
    struct vp_config c;
    struct vp_err err;

    (void)state;
    load_ok(yaml, NULL, &c);
    assert_int_equal(c.sizes.vocab, 2000);
    vp_config_release(&c);
    load_ok(yaml, "vocab=2048", &c);
    assert_int_equal(c.sizes.vocab, 2048);
    vp_config_release(&c);
    assert_int_equal(load(yaml, "vocab=1999", &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "--set: vocab is 1999, but the tokenizer at "
                                  "a.yml:2 has 2000 ids; raise vocab to at "
                                  "least 2000, or remove it");
    vp_config_release(&c);
    assert_int_equal(load(yaml, "tokenizer=/no", &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text, "--set: key 'tokenizer': /no: cannot be "
                                  "opened: No such file or directory; check "
                                  "the path");
    vp_config_release(&c);
    /* fairseq's dictionary has four ids before them; bytes have no tokenizer. */
    load_ok(pairs, NULL, &c);
    assert_int_equal(c.sizes.vocab, 2004);
    vp_config_release(&c);
    assert_int_equal(load(pairs, "data_dir=x", &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "a.yml:2: key 'tokenizer': pairs of text are read byte "
                        "by byte; make files of ids by 'vpipe data pairs' and "
                        "set pad_id to 1, or remove it");
    vp_config_release(&c);
}

static void test_texts_of_a_run(void **state)
{
    static const char yaml[] = "model_type: translation\n"
                               "translate_every: 5\n";
    struct vp_config c;
    struct vp_err err;

    (void)state;
    load_ok("model_type: gpt2\ngenerate_every: 7\nsample_prompts: /p.txt\n"
            "sample_tokens: 3\n",
            NULL, &c);
    assert_int_equal(c.generate_every, 7);
    assert_string_equal(c.sample_prompts, "/p.txt");
    assert_int_equal(c.sample_tokens, 3);
    vp_config_release(&c);
    load_ok(yaml, "sample_prompts=/p.txt", &c);
    assert_int_equal(c.translate_every, 5);
    assert_int_equal(c.generate_every, 0);
    assert_int_equal(c.sample_tokens, 40);
    vp_config_release(&c);
    assert_int_equal(load(yaml, NULL, &c, &err), VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "a.yml:2: key 'translate_every' needs prompts; "
                        "add 'sample_prompts: FILE', with one on each "
                        "line");
    vp_config_release(&c);
    assert_int_equal(load("model_type: gpt2\ngenerate_every: 7\nstages: 2\n"
                          "sample_prompts: /p.txt\nreplicas: [1, 2]\n",
                          NULL, &c, &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "a.yml:2: key 'generate_every' needs ranks that "
                        "are threads of one process, one for each "
                        "stage; remove it or 'replicas'");
    vp_config_release(&c);
}

static void test_pipeline_defaults(void **state)
{
    struct vp_config c;

    (void)state;
    /* The number of stages is that of the partition. */
    load_ok(NINE "partition: [3, 2, 4]\n", NULL, &c);
    assert_int_equal(c.stages, 3);
    assert_int_equal(c.accumulation_steps, 32);
    assert_true(c.sizes.tie_embeddings);
    vp_config_release(&c);
    load_ok(NINE "partition: [9]\n", NULL, &c);
    assert_int_equal(c.stages, 1);
    assert_int_equal(c.accumulation_steps, 1);
    vp_config_release(&c);
    load_ok(NINE "schedule: interleaved\npartition: [1, 1, 1, 2, 2, 2]\n"
                 "chunks: 3\n",
            NULL, &c);
    assert_int_equal(c.stages, 2);
    assert_int_equal(vp_config_n_stages(&c), 6);
    assert_int_equal(vp_config_n_ranks(&c), 2);
    vp_config_release(&c);
    load_ok(NINE "schedule: zb-v\nstages: 2\n", NULL, &c);
    assert_int_equal(c.chunks, 2);
    assert_int_equal(c.partition.n, 4);
    vp_config_release(&c);

    /* One ratio for all. */
    load_ok(NINE "stages: 3\nrecompute_ratio: 0.25\nreplicas: [1, 2, 3]\n",
            NULL, &c);
    assert_reals(&c.recompute_ratio, REALS(0.25, 0.25, 0.25));
    assert_int_equal(vp_config_n_ranks(&c), 6);
    vp_config_release(&c);

    /* Or none, whatever it is. */
    load_ok(NINE "stages: 3\nrecompute_ratio: 0.25\nrecompute: false\n", NULL,
            &c);
    assert_reals(&c.recompute_ratio, REALS(0, 0, 0));
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nrecompute_ratio: [1, 0.5]\nrecompute: False\n",
            NULL, &c);
    assert_reals(&c.recompute_ratio, REALS(0, 0));
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nrecompute_ratio: [1, 0.5]\nrecompute: True\n",
            NULL, &c);
    assert_reals(&c.recompute_ratio, REALS(1, 0.5));
    vp_config_release(&c);

    /* Ranks that are all alone may own several stages. */
    load_ok(NINE "schedule: interleaved\nstages: 2\nreplicas: [1, 1]\n", NULL,
            &c);
    assert_int_equal(vp_config_n_ranks(&c), 2);
    vp_config_release(&c);

    /* asp: an update per minibatch, embeddings apart. */
    load_ok(NINE ASP "stages: 2\n", NULL, &c);
    assert_string_equal(schedule_name(&c), "pipedream");
    assert_int_equal(c.accumulation_steps, 1);
    assert_false(c.sizes.tie_embeddings);
    assert_false(c.macrobatch);
    vp_config_release(&c);
    load_ok(NINE ASP "tie_embeddings: true\n", NULL, &c);
    assert_true(c.sizes.tie_embeddings);
    vp_config_release(&c);
    load_ok(NINE ASP "macrobatch: true\n", NULL, &c);
    assert_string_equal(schedule_name(&c), "macrobatch");
    vp_config_release(&c);
    load_ok(NINE ASP "schedule: macrobatch\n", NULL, &c);
    assert_true(c.macrobatch);
    vp_config_release(&c);
}

/* 12 equal encoder layers of two blocks, an embedding that costs nothing, and
 * a head: stages get equal work, and less of it where they recompute, more
 * where there are replicas. */
#define FLAT BERT "size: base\nvocab: 32\nffn: 1536\n"

static void test_balance(void **state)
{
    struct vp_config c;

    (void)state;
    load_ok(FLAT "stages: 2\n", NULL, &c);
    assert_int_equal(c.partition.at[0] + c.partition.at[1], 25);
    assert_in_range(c.partition.at[0], 12, 13);
    vp_config_release(&c);
    load_ok(FLAT "stages: 2\nrecompute_ratio: [1, 0]\n", NULL, &c);
    assert_in_range(c.partition.at[0], 10, 11);
    vp_config_release(&c);
    load_ok(FLAT "stages: 3\nrecompute_ratio: [1, 0, 0]\n"
                 "replicas: [1, 2, 1]\n",
            NULL, &c);
    /* Work per block 4/3, 1/2 and 1: shares of 25 are 5.0, 13.3 and 6.7. */
    assert_in_range(c.partition.at[0], 5, 6);
    assert_in_range(c.partition.at[1], 12, 14);
    assert_in_range(c.partition.at[2], 6, 7);
    vp_config_release(&c);
}

static void test_published_sizes(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "cpm",
                                          "translation" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        const struct vp_model *model = vp_model_find(models[i]);

        for (int j = 0; j < model->n_sizes; j++) {
            struct vp_config c;
            char yaml[128];

            snprintf(yaml, sizeof(yaml), "size: %s\nmodel_type: %s\n",
                     model->sizes[j].name, models[i]);
            load_ok(yaml, NULL, &c);
            assert_memory_equal(&c.sizes, &model->sizes[j].config,
                                sizeof(c.sizes));
            vp_config_release(&c);
        }
    }
}

static void test_sizes_from_json(void **state)
{
    struct vp_config c;

    (void)state;
    write_text("gpt2.json", gpt2_json);
    load_ok("model_type: cpm\nconfig: gpt2.json\nlayers: 5\n", NULL, &c);
    assert_string_equal(c.model->name, "cpm");
    assert_int_equal(c.sizes.vocab, 100);
    assert_int_equal(c.sizes.hidden, 32);
    assert_int_equal(c.sizes.layers, 5);
    assert_int_equal(c.sizes.positions, 64);
    assert_true(c.sizes.attention_dropout == 0.25f);
    assert_true(c.sizes.eps == 1e-6f);
    assert_int_equal(c.seq_length, 64);
    vp_config_release(&c);
    /* The original's file, also under the original's name for it. */
    write_text("gpt2.json", bert_json);
    for (int i = 0; i < 2; i++) {
        load_ok(i ? BERT "bert_config: gpt2.json\n"
                  : BERT "config: gpt2.json\n",
                NULL, &c);
        assert_int_equal(c.sizes.vocab, 104);
        assert_int_equal(c.sizes.layers, 3);
        assert_int_equal(c.sizes.hidden, 32);
        vp_config_release(&c);
    }
}

static void test_set(void **state)
{
    static const char *const sets[] = { "layers=4", "layers=6",
                                        "max_positions=300",
                                        "log_directory=x=y" };
    struct vp_config c;
    struct vp_err err = { .text = "" };

    (void)state;
    write_text("a.yml", BERT "layers: 2\npositions: 200\n");
    assert_int_equal(vp_config_load("a.yml", sets, VP_COUNT_OF(sets), &c, &err),
                     VP_OK);
    assert_int_equal(c.sizes.layers, 6);
    assert_int_equal(c.sizes.positions, 300);
    assert_string_equal(c.log_directory, "x=y");
    assert_string_equal(vp_config_place(&c, "layers"), "--set");
    vp_config_release(&c);

    /* Lists, in and out of the file. */
    load_ok(NINE, "partition=[3, 2,4]", &c);
    assert_ints(&c.partition, INTS(3, 2, 4));
    assert_string_equal(vp_config_place(&c, "partition"), "--set");
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nrecompute_ratio: [0.5, 0]\n",
            "recompute_ratio=[0.75, 1e-1]", &c);
    assert_reals(&c.recompute_ratio, REALS(0.75, 0.1));
    vp_config_release(&c);
    load_ok(NINE "stages: 2\nrecompute_ratio: [0.5, 0]\n", "recompute_ratio=1",
            &c);
    assert_reals(&c.recompute_ratio, REALS(1.0, 1.0));
    vp_config_release(&c);
    load_ok(BERT, "log_directory=[x]", &c); /* text where text is meant */
    assert_string_equal(c.log_directory, "[x]");
    vp_config_release(&c);

    /* A set repairs what the file has wrong. */
    load_ok(BERT "dropout: yes\n", "dropout=0", &c);
    assert_true(c.sizes.dropout == 0.0f);
    vp_config_release(&c);
    load_ok("layers: 2\n", "model_type=gpt2", &c);
    assert_string_equal(c.model->name, "gpt2");
    vp_config_release(&c);
}

static void test_paths(void **state)
{
    static const char *const set = "data_dir=data";
    struct vp_config c;
    struct vp_err err = { .text = "" };

    (void)state;
    mkdir("sub/data", 0700);
    write_text("sub/gpt2.json", gpt2_json);
    write_text("sub/a.yml", "model_type: gpt2\nconfig: gpt2.json\n"
                            "data_dir: data\nlog_directory: ../logs\n");
    assert_int_equal(vp_config_load("sub/a.yml", NULL, 0, &c, &err), VP_OK);
    assert_string_equal(c.data_dir, "sub/data");
    assert_string_equal(c.log_directory, "sub/../logs");
    assert_int_equal(c.sizes.hidden, 32);
    vp_config_release(&c);

    assert_int_equal(vp_config_load("sub/a.yml", &set, 1, &c, &err), VP_OK);
    assert_string_equal(c.data_dir, "data");
    vp_config_release(&c);

    write_text("sub/a.yml", "model_type: gpt2\ndata_dir: /\n");
    assert_int_equal(vp_config_load("sub/a.yml", NULL, 0, &c, &err), VP_OK);
    assert_string_equal(c.data_dir, "/");
    assert_string_equal(c.log_directory, "runs");
    vp_config_release(&c);
}

/* ---- The table ---------------------------------------------------------- */

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

/* What completion offers. */
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

/* The help of key `size` names every model's default. */
static void test_size_help_names_the_defaults(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "cpm",
                                          "translation" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(models); i++)
        assert_non_null(strstr(vp_key_find("size")->fallback,
                               vp_model_find(models[i])->sizes[0].name));
}

/* Lines that a key's example needs around it. */
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

/* The example that a message offers must be taken. */
static void test_examples_work(void **state)
{
    (void)state;
    write_text("config.json", gpt2_json);
    assert_int_equal(mkdir("models", 0777), 0);
    assert_int_equal(symlink(TOKENIZERS "gpt2", "models/gpt2"), 0);
    write_text("mp_conf.json", "{\"stage_to_rank_map\": {\"0\": [0, 1]}}");
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

/* ---- Writing ------------------------------------------------------------ */

/* The schedule that `auto` made, after all checks. */
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

/* Slots of a rank; a whole stage counts as two. */
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

/* Chunks and their places are chosen, or kept to what is given; a rank has no
 * more slots than it may; stages that recompute have an R for every B. */
static void test_schedule_auto(void **state)
{
    static const struct {
        const char *yaml;
        int chunks; /* 0: open */
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

/* Costs that the user gives decide: lists made for long backwards are shorter
 * under long backwards than lists made for long forwards, and the reverse. */
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

static void assert_same_config(const struct vp_config *a,
                               const struct vp_config *b)
{
    char text_a[16384], text_b[16384];

    for (int i = 0; i < vp_n_keys; i++) {
        bool has_a = vp_key_print(&vp_keys[i], a, text_a, sizeof(text_a));
        bool has_b = vp_key_print(&vp_keys[i], b, text_b, sizeof(text_b));

        assert_int_equal(has_a, has_b);
        if (has_a)
            assert_string_equal(text_a, text_b);
    }
    /* Not only what the table prints: nothing may be missing from it. */
    assert_ptr_equal(a->model, b->model);
    assert_memory_equal(&a->sizes, &b->sizes, sizeof(a->sizes));
    assert_memory_equal(&a->optim, &b->optim, sizeof(a->optim));
    assert_memory_equal(&a->lr, &b->lr, sizeof(a->lr));
    assert_int_equal(a->synthetic_data, b->synthetic_data);
    assert_int_equal(a->data_format, b->data_format);
    assert_int_equal(!a->valid_split, !b->valid_split);
    if (a->valid_split)
        assert_string_equal(a->valid_split, b->valid_split);
    assert_int_equal(a->batch_multiple, b->batch_multiple);
    assert_int_equal(a->document_end, b->document_end);
    assert_string_equal(a->text_key, b->text_key);
    assert_int_equal(a->replace_invalid_utf8, b->replace_invalid_utf8);
    assert_int_equal(a->batch_size, b->batch_size);
    assert_int_equal(a->seq_length, b->seq_length);
    assert_int_equal(a->max_pred, b->max_pred);
    assert_true(a->seed == b->seed);
    assert_int_equal(a->prefetch, b->prefetch);
    assert_int_equal(a->no_input_pipelining, b->no_input_pipelining);
    assert_int_equal(a->num_minibatches, b->num_minibatches);
    assert_int_equal(a->recompute, b->recompute);
    assert_ints(&a->ranks, b->ranks.n, b->ranks.at);
    assert_int_equal(a->mp_size, b->mp_size);
    assert_int_equal(a->compress_activations, b->compress_activations);
    assert_int_equal(a->shard_optimizer, b->shard_optimizer);
    assert_int_equal(a->compress_in_gpu, b->compress_in_gpu);
    assert_int_equal(a->distributed_backend, b->distributed_backend);
    assert_int_equal(a->machines.n, b->machines.n);
    for (int i = 0; i < a->machines.n; i++) {
        assert_string_equal(a->machines.at[i].host, b->machines.at[i].host);
        assert_int_equal(a->machines.at[i].device, b->machines.at[i].device);
    }
    assert_int_equal(a->forward_only, b->forward_only);
    assert_int_equal(a->checkpoint_every, b->checkpoint_every);
    assert_int_equal(a->keep_checkpoints, b->keep_checkpoints);
    assert_int_equal(a->verbose, b->verbose);
    assert_int_equal(a->verbose_frequency, b->verbose_frequency);
    assert_int_equal(a->tensorboard, b->tensorboard);
    if (a->prometheus_file)
        assert_string_equal(a->prometheus_file, b->prometheus_file);
    else
        assert_null(b->prometheus_file);
    assert_int_equal(a->n_notices, b->n_notices);
    assert_int_equal(a->epochs, b->epochs);
    assert_int_equal(a->total_steps, b->total_steps);
    assert_int_equal(a->accumulation_steps, b->accumulation_steps);
    assert_int_equal(a->threads_per_stage, b->threads_per_stage);
    assert_int_equal(a->reference_kernels, b->reference_kernels);
    assert_int_equal(a->memory_limit, b->memory_limit);
    assert_int_equal(a->eval_every, b->eval_every);
    assert_int_equal(a->eval_batches, b->eval_batches);
    assert_int_equal(a->generate_every, b->generate_every);
    assert_int_equal(a->translate_every, b->translate_every);
    assert_int_equal(a->sample_tokens, b->sample_tokens);
    assert_int_equal(a->print_frequency, b->print_frequency);
    assert_int_equal(a->device, b->device);
    assert_int_equal(a->precision, b->precision);
    assert_true(a->loss_scale.start == b->loss_scale.start);
    assert_int_equal(a->loss_scale.dynamic, b->loss_scale.dynamic);
    assert_int_equal(a->sync_mode, b->sync_mode);
    assert_int_equal(a->macrobatch, b->macrobatch);
    assert_int_equal(a->schedule, b->schedule);
    assert_int_equal(a->schedule_v, b->schedule_v);
    assert_int_equal(a->schedule_memory, b->schedule_memory);
    assert_reals(&a->schedule_costs, b->schedule_costs.n, b->schedule_costs.at);
    assert_int_equal(!a->schedule_text, !b->schedule_text);
    if (a->schedule_text)
        assert_string_equal(a->schedule_text, b->schedule_text);
    assert_int_equal(a->stages, b->stages);
    assert_int_equal(a->chunks, b->chunks);
    assert_ints(&a->partition, b->partition.n, b->partition.at);
    assert_reals(&a->recompute_ratio, b->recompute_ratio.n,
                 b->recompute_ratio.at);
    assert_ints(&a->replicas, b->replicas.n, b->replicas.at);
    assert_ints(&a->warmup_depths, b->warmup_depths.n, b->warmup_depths.at);
    assert_int_equal(a->early_recompute, b->early_recompute);
    assert_int_equal(a->clip_per_stage, b->clip_per_stage);
    assert_int_equal(a->watchdog_seconds, b->watchdog_seconds);
}

/* Writes, reads, writes again: same values, same text. */
static void check_round_trip(const char *yaml)
{
    struct vp_config first, second;
    struct vp_err err = { .text = "" };
    char *text_b, *text_c;

    load_ok(yaml, NULL, &first);
    assert_int_equal(vp_config_write(&first, "b.yml", &err), VP_OK);
    if (vp_config_load("b.yml", NULL, 0, &second, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_same_config(&first, &second);
    assert_int_equal(vp_config_write(&second, "c.yml", &err), VP_OK);
    text_b = read_text("b.yml");
    text_c = read_text("c.yml");
    assert_string_equal(text_b, text_c);
    free(text_b);
    free(text_c);
    vp_config_release(&first);
    vp_config_release(&second);
}

static void test_round_trip(void **state)
{
    static const char *const models[] = { "bert", "gpt2", "cpm",
                                          "translation" };

    (void)state;
    check_round_trip(everything);
    for (size_t i = 0; i < VP_COUNT_OF(models); i++) {
        for (int kind = 0; kind < VP_OPTIM_KIND_COUNT; kind++) {
            char yaml[256];

            snprintf(yaml, sizeof(yaml),
                     "model_type: %s\noptimizer: %s\nlearning_rate: "
                     "0.123456789\ndropout: 0.3333333\n",
                     models[i], vp_optim_name(kind));
            check_round_trip(yaml);
        }
    }
    check_round_trip(NINE "stages: 4\nrecompute_ratio: 0.3\n");
    check_round_trip(NINE ASP "stages: 3\nreplicas: [2, 1, 3]\n");
    check_round_trip(NINE ASP "stages: 2\nmacrobatch: true\n");
    check_round_trip(NINE "schedule: zb-v\nstages: 2\n");
    check_round_trip(NINE "schedule: auto\nstages: 2\n");
    check_round_trip(NINE "schedule: auto\nstages: 2\nrecompute_ratio: 0.5\n");
    check_round_trip(NINE "schedule: auto\nstages: 2\nswap_ratio: 0.5\n");
    check_round_trip(NINE "schedule: auto\nstages: 4\nchunks: 1\n"
                          "schedule_memory: 5\nschedule_costs: [1, 2, .5]\n");
    check_round_trip(BERT "module: vgpus=8\ndirectory: sub\n");
    check_round_trip(BERT "precision: fp16\n");
    check_round_trip(BERT "precision: fp16\nloss_scale: off\n");
    check_round_trip(BERT "loss_scale: dynamic\n");
    check_round_trip(BERT "checkpoint_every: epoch\n");
    check_round_trip(NINE "stages: 2\nrecompute_ratio: 1\nrecompute: no\n");
    check_round_trip(NINE "verbose_frequency: 3\ncontainer: x\n");
    check_round_trip(NINE "schedule: interleaved\nstages: 2\nchunks: 3\n");
    write_text("gpt2.json", gpt2_json);
    check_round_trip("model_type: gpt2\nconfig: gpt2.json\n");
    for (int policy = 0; policy < VP_LR_POLICY_COUNT; policy++) {
        char yaml[128];

        snprintf(yaml, sizeof(yaml), BERT "learning_rate_policy: %s\n",
                 vp_lr_name(policy));
        check_round_trip(yaml);
    }
}

/* The file works from any folder: paths in it are absolute. */
static void test_written_paths(void **state)
{
    struct vp_config c;
    struct vp_err err = { .text = "" };
    char *text, *here = getcwd(NULL, 0);
    char want[512];

    (void)state;
    load_ok(BERT "data_dir: data\n", NULL, &c);
    assert_int_equal(vp_config_write(&c, "b.yml", &err), VP_OK);
    text = read_text("b.yml");
    snprintf(want, sizeof(want), "\ndata_dir: \"%s/data\"\n", here);
    assert_non_null(strstr(text, want));
    assert_int_equal(vp_config_write(&c, "none/b.yml", &err), VP_ERR_IO);
    assert_string_equal(err.text, "none/b.yml: cannot be written: No such file "
                                  "or directory; see that its folder is "
                                  "there, or choose another");
    free(text);
    free(here);
    vp_config_release(&c);
}

static void test_shipped_files(void **state)
{
    static const char *const files[] = {
        "bert_tiny",        "bert_one",
        "bert_4gpipe_tiny", "bert_4pipedream_tiny",
        "gpt2_tiny",        "translation_tiny",
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(files); i++) {
        struct vp_config c;
        struct vp_err err = { .text = "" };
        char path[512];

        snprintf(path, sizeof(path), VP_SOURCE_DIR "/configs/%s.yml", files[i]);
        if (vp_config_load(path, NULL, 0, &c, &err) != VP_OK)
            fail_msg("%s", err.text);
        vp_config_release(&c);
    }
}

/* ---- Mutations ---------------------------------------------------------- */

static uint32_t draw(uint32_t round, uint32_t i, uint32_t n)
{
    return vp_rng_below(vp_rng(11, VP_RNG_TEST, 1, round, i, 0).v[0], n);
}

/* Flips, replaces, removes, doubles and cuts; bytes that mean something in
 * YAML come more often. */
static size_t mutate(char *bytes, size_t n, size_t room, uint32_t round)
{
    static const char special[] = ":-#&*!|>'\"%@`{}[],?~ \t\n\r\\0";
    uint32_t n_edits = 1 + draw(round, 0, 6);

    for (uint32_t i = 1; i <= n_edits && n > 4; i++) {
        size_t at = draw(round, 10 * i, (uint32_t)n);
        size_t len = 1 + draw(round, 10 * i + 1, 16);

        len = len < n - at ? len : n - at;
        switch (draw(round, 10 * i + 2, 6)) {
        case 0:
            bytes[at] = (char)draw(round, 10 * i + 3, 256);
            break;
        case 1:
        case 2:
            bytes[at] = special[draw(round, 10 * i + 3, sizeof(special))];
            break;
        case 3:
            memmove(bytes + at, bytes + at + len, n - at - len);
            n -= len;
            break;
        case 4:
            if (n + len > room)
                break;
            memmove(bytes + at + len, bytes + at, n - at);
            n += len;
            break;
        default:
            if (draw(round, 10 * i + 3, 8) == 0)
                n = at;
        }
    }
    return n;
}

/* The files that `original` names. */
static void write_plan_files(void)
{
    write_text("sub/plan.json", "{\"partition\": [24, 25],\n"
                                " \"recompute_ratio\": [0.3, 0]}\n");
    write_text("sub/ranks.json", "{\"stage_to_rank_map\": {\"0\": [0],"
                                 " \"1\": [1]}}\n");
}

static void test_mutations(void **state)
{
    static const char small[] =
        "# comment\nmodel_type: gpt2   # inline\nsize: '124M'\n"
        "data_dir: \"data\"\nlayers: {a: [1, 2, {b: c}]}\n---\n"
        "memory_limit: 11G\nlr_warmup: true\nstages: 4\n"
        "recompute_ratio: [0.5, 0, 1, 0.25]\n";
    static const char original[] =
        "'model_type': 'bert'\n'directory': 'sub'\n'module': 'vgpus=4'\n"
        "'partition': 'plan.json'\n'config_file': 'ranks.json'\n"
        "'container': 'bert'\n'machines': ['localhost:0', 'g5:1']\n"
        "'sync_mode': 'asp'\n'weight_decay': 0.000\n'epochs': 40\n"
        "'compress_in_gpu': False\n'distributed_backend': 'gloo'\n";
    static const struct {
        const char *text;
        size_t n;
    } seeds[] = {
        { everything, sizeof(everything) - 1 },
        { small, sizeof(small) - 1 },
        { original, sizeof(original) - 1 },
        { BERT, sizeof(BERT) - 1 },
    };
    int n_ok = 0, n_refused = 0;

    (void)state;
    write_plan_files();
    for (uint32_t round = 0; round < 120000; round++) {
        size_t which = round % VP_COUNT_OF(seeds);
        struct vp_err err = { .text = "" };
        struct vp_config c;
        enum vp_status st;
        char bytes[4096];
        size_t n = seeds[which].n;

        memcpy(bytes, seeds[which].text, n);
        n = mutate(bytes, n, sizeof(bytes), round);
        st = vp_config_parse("a.yml", bytes, n, NULL, 0, &c, &err);
        if (st == VP_OK) {
            assert_string_equal(err.text, "");
            n_ok++;
        } else {
            if (strncmp(err.text, "a.yml:", 6) != 0 &&
                strncmp(err.text, "sub/", 4) != 0)
                fail_msg("%s", err.text);
            assert_true(vp_yaml_printable(err.text));
            assert_non_null(strstr(err.text, "; "));
            n_refused++;
        }
        vp_config_release(&c);
    }
    assert_true(n_ok > 1000);
    assert_true(n_refused > 40000);
}

/* A FIFO that has no writer, one that writes nothing, or one that never ends:
 * an error in time. Descriptor -1: nobody opens it. */
static void test_pipes_have_an_end(void **state)
{
    static const char want[] = "fifo: is a pipe or device that does not end "
                               "within 0.2 s; give a YAML file";
    static const char *const written[] = { NULL, "", "model_type: bert\n" };

    (void)state;
    assert_int_equal(mkfifo("fifo", 0666), 0);
    alarm(60);
    for (size_t i = 0; i < VP_COUNT_OF(written); i++) {
        /* For both directions it opens without another end. */
        int fd = written[i] ? open("fifo", O_RDWR) : -1;
        struct vp_err err = { .text = "" };
        char *bytes = NULL;
        size_t n = 0;

        if (written[i])
            assert_int_equal(write(fd, written[i], strlen(written[i])),
                             (ssize_t)strlen(written[i]));
        assert_int_equal(
            vp_file_read_within("fifo", "YAML", 200, &bytes, &n, &err),
            VP_ERR_IO);
        assert_string_equal(err.text, want);
        if (fd >= 0)
            close(fd);
    }
    alarm(0);
    assert_int_equal(remove("fifo"), 0);
}

/* Relative paths of a configuration that has no place start at the working
 * directory; that of a file, at its folder. */
static void test_pipes_have_no_folder(void **state)
{
    static const char text[] = "model_type: bert\nlog_directory: runs\n";
    struct vp_config c;
    struct vp_err err = { .text = "" };
    char path[64];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, sizeof(text) - 1), sizeof(text) - 1);
    close(ends[1]);
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
    if (vp_config_load(path, NULL, 0, &c, &err) != VP_OK)
        fail_msg("%s", err.text);
    close(ends[0]);
    assert_true(c.piped);
    assert_string_equal(c.log_directory, "runs");
    vp_config_release(&c);
    mkdir("sub", 0777);
    write_text("sub/p.yml", text);
    if (vp_config_load("sub/p.yml", NULL, 0, &c, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_false(c.piped);
    assert_string_equal(c.log_directory, "sub/runs");
    vp_config_release(&c);
    assert_int_equal(remove("sub/p.yml"), 0);
}

/* Every number that is taken is kept: read, written and read again. */
static void test_edges_of_numbers(void **state)
{
    static const struct {
        const char *line;
        uint64_t seed;
        size_t memory;
    } cases[] = {
        { "seed: 0", 0, 0 },
        { "seed: 4294967296", 4294967296u, 0 },
        { "seed: 9007199254740991", 9007199254740991u, 0 },
        { "seed: 9007199254740992", 9007199254740992u, 0 },
        { "memory_limit: 9007199254740991", 1, 9007199254740991u },
        { "memory_limit: 8191T", 1, (size_t)8191 << 40 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config first, second;
        struct vp_err err = { .text = "" };
        char text[128];

        snprintf(text, sizeof(text), "model_type: bert\n%s\n", cases[i].line);
        write_text("a.yml", text);
        if (vp_config_load("a.yml", NULL, 0, &first, &err) != VP_OK ||
            vp_config_write(&first, "b.yml", &err) != VP_OK ||
            vp_config_load("b.yml", NULL, 0, &second, &err) != VP_OK)
            fail_msg("%s: %s", cases[i].line, err.text);
        assert_true(first.seed == cases[i].seed);
        assert_true(second.seed == cases[i].seed);
        assert_true(first.memory_limit == cases[i].memory);
        assert_true(second.memory_limit == cases[i].memory);
        vp_config_release(&first);
        vp_config_release(&second);
    }
}

/* ---- A schedule's file and its copy ------------------------------------- */

#define ONE_MB "stages=1 minibatches=1\n0: 0F0 0B0 0UPDATE0\n"
#define TWO_MB "stages=1 minibatches=2\n0: 0F0 0B0 0F1 0B1 0UPDATE0\n"

/* The copy of a checkpoint stands in for a file that is gone, and for no
 * other. */
static void test_saved_schedule(void **state)
{
    static const struct {
        const char *path, *saved;
        const char *text; /* NULL: refused */
    } cases[] = {
        { "./s.txt", NULL, TWO_MB },      { "./s.txt", ONE_MB, TWO_MB },
        { "./gone.txt", ONE_MB, ONE_MB }, { "./s.txt/x", ONE_MB, ONE_MB },
        { "./gone.txt", NULL, NULL },     { "./gone.txt", "nonsense", NULL },
    };

    (void)state;
    write_text("a.yml", "model_type: bert\nlayers: 4\n");
    write_text("s.txt", TWO_MB);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config config;
        struct vp_err err = { .text = "" };
        char text[64];
        const char *set = text;
        const struct vp_config_source from = { .path = "a.yml",
                                               .sets = &set,
                                               .n_sets = 1,
                                               .schedule = cases[i].saved };
        enum vp_status st;

        snprintf(text, sizeof(text), "schedule=%s", cases[i].path);
        st = vp_config_load_from(&from, &config, &err);
        assert_true((st == VP_OK) == (cases[i].text != NULL));
        assert_null(config.saved_schedule);
        if (st == VP_OK) {
            bool is_saved = cases[i].text == cases[i].saved;

            assert_string_equal(config.schedule_text, cases[i].text);
            assert_string_equal(config.schedule_file->path, cases[i].path);
            assert_int_equal(config.schedule_file->is_saved, is_saved);
            assert_int_equal(config.n_notices, is_saved);
        }
        vp_config_release(&config);
    }
    unlink("s.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yaml_tree),
        cmocka_unit_test(test_yaml_printable),
        cmocka_unit_test(test_yaml_limits),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_real_numbers),
        cmocka_unit_test(test_bools_and_bytes),
        cmocka_unit_test(test_floats_print_shortest),
        cmocka_unit_test(test_edit_distance),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_nearest_key),
        cmocka_unit_test(test_refuses_yaml),
        cmocka_unit_test(test_refuses_keys),
        cmocka_unit_test(test_refuses_values),
        cmocka_unit_test(test_refuses_combinations),
        cmocka_unit_test(test_refuses_pipelines),
        cmocka_unit_test(test_refuses_files),
        cmocka_unit_test(test_only_model_type),
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_every_key_of_the_run),
        cmocka_unit_test(test_derived_defaults),
        cmocka_unit_test(test_vocabulary_of_a_tokenizer),
        cmocka_unit_test(test_texts_of_a_run),
        cmocka_unit_test(test_pipeline_defaults),
        cmocka_unit_test(test_balance),
        cmocka_unit_test(test_published_sizes),
        cmocka_unit_test(test_sizes_from_json),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_words_and_paths),
        cmocka_unit_test(test_size_help_names_the_defaults),
        cmocka_unit_test(test_examples_work),
        cmocka_unit_test(test_schedule_auto),
        cmocka_unit_test(test_schedule_costs_decide),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_written_paths),
        cmocka_unit_test(test_shipped_files),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_edges_of_numbers),
        cmocka_unit_test(test_pipes_have_an_end),
        cmocka_unit_test(test_pipes_have_no_folder),
        cmocka_unit_test(test_saved_schedule),
        cmocka_unit_test(test_precision_auto),
    };

    return cmocka_run_group_tests(tests, enter_temp_folder, leave_temp_folder);
}
