/* A written configuration loads with equal values; mutated text, pipes and
 * extreme numbers cause neither crashes nor hangs. */
#include "base/file.h"
#include "base/yaml.h"
#include "config/config.h"
#include "config/key.h"
#include "config/keys.h"
#include "config/load.h"
#include "config/schedule_file.h"
#include "config_cases.h"
#include "lib/config_text.h"
#include "lib/configlib.h"
#include "lib/mutate_text.h"

#include <fcntl.h>
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

/* ---- Writing ------------------------------------------------------------ */

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
    /* Also compares fields directly, in case a key is missing from the
     * table. */
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
    assert_int_equal(a->sequence_parallel, b->sequence_parallel);
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

/* Writes, loads and writes again: values and text stay the same. */
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
    write_text_file("gpt2.json", gpt2_json);
    check_round_trip("model_type: gpt2\nconfig: gpt2.json\n");
    for (int policy = 0; policy < VP_LR_POLICY_COUNT; policy++) {
        char yaml[128];

        snprintf(yaml, sizeof(yaml), BERT "learning_rate_policy: %s\n",
                 vp_lr_name(policy));
        check_round_trip(yaml);
    }
}

/* The written file works from any folder, because its paths are absolute. */
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
                                  "or directory; check that its folder "
                                  "exists, or choose another");
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

/* ---- Mutated text, pipes and extreme numbers ---------------------------- */

static const char special_to_yaml[] = ":-#&*!|>'\"%@`{}[],?~ \t\n\r\\0";
static const struct text_mutation mutation = {
    .seed = 11,
    .special = special_to_yaml,
    .n_special = sizeof(special_to_yaml), /* with the final zero */
    .most_edits = 6,
    .most_bytes = 16,
};

/* Writes the files that `original` names. */
static void write_plan_files(void)
{
    write_text_file("sub/plan.json", "{\"partition\": [24, 25],\n"
                                     " \"recompute_ratio\": [0.3, 0]}\n");
    write_text_file("sub/ranks.json", "{\"stage_to_rank_map\": {\"0\": [0],"
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
    static const char *const seeds[] = { everything, small, original, BERT };
    int n_ok = 0, n_refused = 0;

    (void)state;
    write_plan_files();
    for (uint32_t round = 0; round < 120000; round++) {
        size_t which = round % VP_COUNT_OF(seeds);
        struct vp_err err = { .text = "" };
        struct vp_config c;
        enum vp_status st;
        char bytes[4096];
        size_t n = strlen(seeds[which]);

        memcpy(bytes, seeds[which], n);
        n = mutate_text(&mutation, round, bytes, n, sizeof(bytes));
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

/* A FIFO without a writer, with a silent writer, or with one that never closes
 * it gives an error in time. With fd -1 the test opens no writer. */
static void test_pipes_have_an_end(void **state)
{
    static const char want[] = "fifo: is a pipe or device that does not end "
                               "within 0.2 s; give a YAML file";
    static const char *const written[] = { NULL, "", "model_type: bert\n" };

    (void)state;
    assert_int_equal(mkfifo("fifo", 0666), 0);
    alarm(60);
    for (size_t i = 0; i < VP_COUNT_OF(written); i++) {
        /* O_RDWR opens a FIFO without another process. */
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

/* Relative paths start at the folder of the configuration file, or at the
 * working directory if the configuration comes from a pipe. */
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
    write_text_file("sub/p.yml", text);
    if (vp_config_load("sub/p.yml", NULL, 0, &c, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_false(c.piped);
    assert_string_equal(c.log_directory, "sub/runs");
    vp_config_release(&c);
    assert_int_equal(remove("sub/p.yml"), 0);
}

/* Every accepted number survives loading, writing and loading again. */
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
        write_text_file("a.yml", text);
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

/* ---- A schedule file and its copy in a checkpoint ----------------------- */

#define ONE_MB "stages=1 minibatches=1\n0: 0F0 0B0 0UPDATE0\n"

#define TWO_MB "stages=1 minibatches=2\n0: 0F0 0B0 0F1 0B1 0UPDATE0\n"

/* The copy in a checkpoint replaces a schedule file that is missing, not one
 * that exists. */
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
    write_text_file("a.yml", "model_type: bert\nlayers: 4\n");
    write_text_file("s.txt", TWO_MB);
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
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_written_paths),
        cmocka_unit_test(test_shipped_files),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_edges_of_numbers),
        cmocka_unit_test(test_pipes_have_an_end),
        cmocka_unit_test(test_pipes_have_no_folder),
        cmocka_unit_test(test_saved_schedule),
    };

    return cmocka_run_group_tests(tests, enter_config_folder,
                                  leave_config_folder);
}
