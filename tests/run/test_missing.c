/* A plan for another machine lists the resources that this machine lacks. Only
 * errors of the configuration itself are refused. */
#include "config/load.h"
#include "run/missing.h"
#include "run/run.h"

#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char small[] = "model_type: gpt2\nvocab: 64\nhidden: 32\n"
                            "layers: 2\nheads: 2\npositions: 16\n"
                            "seq_length: 16\nbatch_size: 4\ndropout: 0.0\n"
                            "threads_per_stage: 1\nlog_directory: /tmp\n";

/* A model that needs about 10 TiB. */
#define HUGE_MODEL                                                    \
    "model_type: gpt2\nvocab: 64\nhidden: 32\nlayers: 48\nheads: 2\n" \
    "positions: 16\nseq_length: 16\nbatch_size: 16777216\n"           \
    "log_directory: /tmp\n"

/* On a GPU of capability 9.0, attention of this model has smaller temporaries
 * than on others. */
#define GPU_MODEL                                                  \
    "model_type: gpt2\nvocab: 512\nhidden: 512\nlayers: 2\n"       \
    "heads: 8\npositions: 1024\nseq_length: 1024\nbatch_size: 8\n" \
    "dropout: 0.0\nprecision: bf16\nlog_directory: /tmp\n"

/* Parses `small` followed by `more`, or `more` alone if it is a whole file. */
static void load(struct vp_config *out, const char *more)
{
    struct vp_err err = { .text = "" };
    char text[1024];

    snprintf(text, sizeof(text), "%s%s",
             strncmp(more, "model_type", 10) == 0 ? "" : small, more);
    if (vp_config_parse("a.yml", text, strlen(text), NULL, 0, out, &err) !=
        VP_OK)
        fail_msg("%s", err.text);
}

/* ---- The text ----------------------------------------------------------- */

static void text_is_cut_not_overrun(void **state)
{
    struct vp_missing missing = { .text = "" };
    char path[1500];

    (void)state;
    vp_missing_add(&missing, "a GPU (%s)", "none");
    vp_missing_add(&missing, "GPU %d", 3);
    assert_string_equal(missing.text, "a GPU (none), GPU 3");
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    for (int i = 0; i < 4; i++)
        vp_missing_add(&missing, "%s", path);
    assert_int_equal(strlen(missing.text), sizeof(missing.text) - 1);
}

/* ---- Needs of a finished plan ------------------------------------------- */

/* Two GPUs with 1000 bytes, of which 400 are free; the second one returns an
 * error. */
static int two_devices(struct vp_err *why)
{
    (void)why;
    return 2;
}

static enum vp_status describe(int device, bool rates,
                               struct vp_device_info *out, struct vp_err *err)
{
    assert_false(rates);
    if (device == 1)
        return vp_err_set(err, VP_ERR_IO, "silence");
    *out = (struct vp_device_info){ .bytes = 1000, .free_bytes = 400 };
    return VP_OK;
}

/* Returns the missing resources of a plan with a stage of 300 bytes on two
 * ranks and one of 100 bytes on one rank. Checkpoints have `n_params`
 * parameters; 0: there is no run folder. */
static const char *find(const char *yaml, const int *devices,
                        struct vp_host_need host, int64_t n_params)
{
    static const struct vp_memory large = { .total = 300 },
                                  little = { .total = 100 };
    static const struct vp_device_ops device = { .host_memory = false };
    static const struct vp_backend_ops fake = { .device = &device,
                                                .n_devices = two_devices,
                                                .info = describe };
    static struct vp_missing missing;
    struct vp_run_stage stages[] = {
        { .n_ranks = 2, .memory = &large, .n_params = n_params },
        { .first_rank = 2, .n_ranks = 1, .memory = &little },
    };
    struct vp_run_summary summary = { .stages = stages,
                                      .n_stages = 2,
                                      .n_steps = 10 };
    struct vp_train_config train = { .backend = devices ? &fake
                                                        : &vp_backend_cpu,
                                     .plan.devices = devices };
    struct vp_config config;
    const struct vp_missing_config with = {
        .config = &config,
        .train = &train,
        .summary = &summary,
        .host = host,
        .folder = n_params > 0 ? "/tmp/runs" : NULL,
    };

    load(&config, yaml);
    missing = (struct vp_missing){ .text = "" };
    vp_missing_find(&with, &missing);
    vp_config_release(&config);
    return missing.text;
}

static void memory_of_gpus_is_counted(void **state)
{
    static const struct vp_host_need none = { .memory_left = 1 };
    static const int apart[] = { 0, 2, 0 }, together[] = { 0, 0, 0 },
                     silent[] = { 0, 1, 2 };
    static const char mpi[] = "distributed_backend: mpi\n"
                              "machines: [a:0, a:0, b:0]\nstages: 3\n";

    (void)state;
    assert_string_equal(find("", apart, none, 0), "");
    assert_string_equal(find("", together, none, 0),
                        "memory of GPU 0 (700 B needed, 400 B left)");
    assert_string_equal(find("", silent, none, 0), "GPU 1 (silence)");
    /* The GPUs of other hosts are not known. */
    assert_string_equal(find(mpi, together, none, 0), "");
}

static void memory_of_the_host_is_compared(void **state)
{
    (void)state;
    assert_string_equal(
        find("", NULL, (struct vp_host_need){ 5, 5, 7, SIZE_MAX, 0 }, 0), "");
    assert_string_equal(
        find("", NULL, (struct vp_host_need){ 6, 5, 7, 7, 0 }, 0),
        "memory (6 B needed, 5 B left)");
    assert_string_equal(
        find("", NULL, (struct vp_host_need){ 5, 5, 8, 7, 0 }, 0),
        "address space by ulimit -v or -d (8 B needed, 7 B left)");
}

static void checkpoints_need_a_disk(void **state)
{
    static const struct vp_host_need none = { .memory_left = 1 };
    const char *text;

    (void)state;
    assert_string_equal(find("", NULL, none, 1), "");
    text = find("", NULL, none, (int64_t)1 << 50);
    assert_memory_equal(text, "disk space for checkpoints in /tmp/runs (", 41);
}

/* ---- Whole plans -------------------------------------------------------- */

struct seen {
    char missing[VP_MISSING_TEXT];
    int64_t n_steps;
    double unigram_loss, bubble;
    int n_stages;
    int64_t bytes;
};

static void keep_start(void *ctx, const struct vp_run_summary *summary)
{
    struct seen *seen = ctx;

    *seen = (struct seen){
        .n_steps = summary->n_steps,
        .unigram_loss = summary->unigram_loss,
        .bubble = summary->bubble_simulated,
        .n_stages = summary->n_stages,
        .bytes = summary->stages[0].memory->total,
    };
    if (summary->missing)
        snprintf(seen->missing, sizeof(seen->missing), "%s", summary->missing);
}

static enum vp_status plan(const char *yaml, bool elsewhere, int64_t max_steps,
                           struct seen *seen, struct vp_err *err)
{
    struct vp_run_options options = { .dry_run = true,
                                      .elsewhere = elsewhere,
                                      .max_steps = max_steps };
    struct vp_run_events events = { .ctx = seen, .on_start = keep_start };
    struct vp_config config;
    enum vp_status st;

    err->text[0] = '\0';
    *seen = (struct seen){ .missing = "" };
    load(&config, yaml);
    st = vp_run_train(&config, &options, &events, err);
    vp_config_release(&config);
    return st;
}

/* Checks that `yaml` is refused with `cause` for this machine, and planned with
 * the missing resource `lack` for another one. */
static void expect(const char *yaml, const char *cause, const char *lack,
                   struct seen *seen)
{
    struct vp_err err;

    if (plan(yaml, false, 0, seen, &err) == VP_OK || !strstr(err.text, cause))
        fail_msg("%s: not '%s' but '%s'", yaml, cause, err.text);
    if (plan(yaml, true, 0, seen, &err) != VP_OK)
        fail_msg("%s: %s", yaml, err.text);
    if (!strstr(seen->missing, lack))
        fail_msg("%s: not '%s' but '%s'", yaml, lack, seen->missing);
    assert_true(seen->bytes > 0);
}

static void memory_is_planned_elsewhere(void **state)
{
    struct seen seen;
    struct vp_err err;

    (void)state;
    expect(HUGE_MODEL "device: cpu\nstages: 2\n",
           "the stages here and the copies to save them need ", "memory (",
           &seen);
    assert_non_null(strstr(seen.missing, " TiB needed, "));
    assert_int_equal(seen.n_stages, 2);
    assert_true(seen.bubble > 0.0);
    /* Checkpoints of 2.5e12 parameters and their moments do not fit the
     * disk. */
    assert_int_equal(plan("model_type: gpt2\nhidden: 65536\nheads: 64\n"
                          "layers: 48\nbatch_size: 1\ndevice: cpu\n"
                          "total_steps: 9\nlog_directory: /tmp\n",
                          true, 0, &seen, &err),
                     VP_OK);
    assert_non_null(
        strstr(seen.missing, "disk space for checkpoints in /tmp ("));
    /* memory_limit is part of the configuration, not of a machine. */
    assert_int_equal(plan("memory_limit: 1K\n", true, 0, &seen, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "memory_limit is 1 KiB"));
    /* A small model lacks nothing. */
    assert_int_equal(plan("device: cpu\n", true, 0, &seen, &err), VP_OK);
    assert_string_equal(seen.missing, "");
}

static void data_is_not_needed(void **state)
{
    static const char yaml[] = "device: cpu\ndata_dir: /no/such\nepochs: 3\n"
                               "eval_every: 5\n";
    static const char steps[] = "device: cpu\ndata_dir: /no/such\n"
                                "total_steps: 77\n";
    struct seen seen;
    struct vp_err err;

    (void)state;
    expect(yaml, "a.yml:13: key 'data_dir' names '/no/such'",
           "the data (data_dir /no/such cannot be read)", &seen);
    assert_int_equal(seen.n_steps, 0);
    assert_true(isnan(seen.unigram_loss));
    assert_int_equal(plan(yaml, true, 9, &seen, &err), VP_OK);
    assert_int_equal(seen.n_steps, 9);
    assert_int_equal(plan(steps, true, 0, &seen, &err), VP_OK);
    assert_int_equal(seen.n_steps, 77);
    /* Data that exists is read, even for another machine. */
    assert_int_equal(plan("data_dir: /dev/null\n", true, 0, &seen, &err),
                     VP_ERR_INVALID);
}

static void devices_are_not_needed(void **state)
{
    struct seen seen;
    struct vp_err err;
    bool found;

    (void)state;
    /* A machine with a GPU lacks nothing. */
    found = plan("precision: fp16\n", false, 0, &seen, &err) == VP_OK;
    assert_int_equal(plan("precision: fp16\n", true, 0, &seen, &err), VP_OK);
    assert_int_equal(seen.missing[0] == '\0', found);
    assert_true(seen.bytes > 0);
    if (!found) {
        assert_non_null(strstr(seen.missing, "GPU"));
        assert_int_equal(plan("device: cuda\n", true, 0, &seen, &err), VP_OK);
        assert_non_null(strstr(seen.missing, "GPU"));
        assert_null(strstr(seen.missing, "device 0")); /* none was opened */
        /* The price is that of a GPU, also without the CUDA plugin. The memory
         * of this host is not compared. */
        assert_int_equal(plan(HUGE_MODEL "precision: bf16\ndevice: cuda\n",
                              true, 0, &seen, &err),
                         VP_OK);
        assert_null(strstr(seen.missing, "memory ("));
        assert_int_equal(seen.bytes, 8834825090304);
        assert_int_equal(plan(GPU_MODEL "device: cuda\n", true, 0, &seen, &err),
                         VP_OK);
        assert_int_equal(seen.bytes, 493650176);
        assert_int_equal(plan(GPU_MODEL "device: cuda\nstages: 2\n"
                                        "schedule: gpipe\n",
                              true, 0, &seen, &err),
                         VP_OK);
        assert_int_equal(seen.bytes, 3014500352);
    }
    /* fp16 on a CPU is refused for every machine. */
    assert_int_equal(
        plan("precision: fp16\ndevice: cpu\n", true, 0, &seen, &err),
        VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "only fp32 and bf16 run on a CPU"));
    assert_int_equal(
        plan("precision: bf16\ndevice: cpu\n", true, 0, &seen, &err), VP_OK);
    assert_string_equal(seen.missing, "");
}

/* `machines` names two cores; the process may use only one of them. */
static void cores_are_not_needed(void **state)
{
    static const char yaml[] = "device: cpu\nstages: 2\n"
                               "machines: [localhost:0, localhost:1]\n";
    cpu_set_t all, one;
    struct seen seen;
    struct vp_err err;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || CPU_COUNT(&all) < 2) {
        print_message("skipped: needs two cores\n");
        skip();
    }
    assert_int_equal(plan(yaml, true, 0, &seen, &err), VP_OK);
    assert_string_equal(seen.missing, "");
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &all))
            CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    expect(yaml, "cores 1 to 1 are needed, but the process may use 1",
           "device 1 (cpu backend: cores 1 to 1 are needed", &seen);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_not_overrun),
        cmocka_unit_test(memory_of_gpus_is_counted),
        cmocka_unit_test(memory_of_the_host_is_compared),
        cmocka_unit_test(checkpoints_need_a_disk),
        cmocka_unit_test(memory_is_planned_elsewhere),
        cmocka_unit_test(data_is_not_needed),
        cmocka_unit_test(devices_are_not_needed),
        cmocka_unit_test(cores_are_not_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
