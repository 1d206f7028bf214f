/* What a run leaves behind and shows: the original's log lines, the files of
 * the folder, the inside of a pipeline, the live view. */
#include "config/load.h"
#include "progress.h"
#include "lib/removelib.h"
#include "run/disk_space.h"
#include "run/folder.h"
#include "run/log.h"
#include "run/run.h"
#include "tool.h"

#include <dirent.h>
#include <math.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

/* ---- Files -------------------------------------------------------------- */

static const char *path_of(const char *folder, const char *name)
{
    static char path[4][256];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s/%s", root, folder, name);
    return path[turn];
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    if (!f)
        fail_msg("%s is missing", path);
    assert_true(fread(text, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
    fclose(f);
    return text;
}

static void assert_file(const char *path, const char *want)
{
    char *text = read_text(path);

    assert_string_equal(text, want);
    free(text);
}

static int count_lines(const char *text, const char *pattern)
{
    char *copy = strdup(text), *save = NULL;
    regex_t regex;
    int n = 0;

    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    for (char *line = strtok_r(copy, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        n += regexec(&regex, line, 0, NULL, 0) == 0;
    regfree(&regex);
    free(copy);
    return n;
}

/* ---- Memory that was allocated ------------------------------------------ */

/* See tests/CMakeLists.txt. */
enum vp_status __real_vp_device_alloc(struct vp_device *device, size_t n_bytes,
                                      void **out);
enum vp_status __wrap_vp_device_alloc(struct vp_device *device, size_t n_bytes,
                                      void **out);

static atomic_llong n_device_bytes;

enum vp_status __wrap_vp_device_alloc(struct vp_device *device, size_t n_bytes,
                                      void **out)
{
    atomic_fetch_add(&n_device_bytes, (long long)n_bytes);
    return __real_vp_device_alloc(device, n_bytes, out);
}

/* ---- Runs --------------------------------------------------------------- */

enum { MAX_LINES = 4096 };

struct heard {
    int rank[MAX_LINES];
    char line[MAX_LINES][160];
    int n_lines;
    int64_t eval_step, n_batches;
    double eval_loss;
    int n_evals, n_steps;
    int64_t epochs[64];
    double losses[64];
    char notices[4096]; /* one line each */
    int ranks[3];       /* the user's numbers */
    int64_t n_bytes;    /* of all stages, as planned */
    char error[512];
};

static struct heard heard;

static void hear_detail(void *ctx, int rank, const char *line)
{
    (void)ctx;
    assert_true(heard.n_lines < MAX_LINES);
    heard.rank[heard.n_lines] = rank;
    snprintf(heard.line[heard.n_lines++], sizeof(heard.line[0]), "%s", line);
}

static void hear_start(void *ctx, const struct vp_run_summary *summary)
{
    (void)ctx;
    for (int r = 0; r < summary->n_ranks && r < 3; r++)
        heard.ranks[r] = summary->rank_numbers ? summary->rank_numbers[r] : -1;
    for (int s = 0; s < summary->n_stages; s++)
        heard.n_bytes += summary->stages[s].memory->total *
                         summary->stages[s].n_ranks;
}

static void hear_step(void *ctx, const struct vp_step_report *report)
{
    (void)ctx;
    if (report->step <= 64) {
        heard.epochs[report->step - 1] = report->epoch;
        heard.losses[report->step - 1] = report->loss;
    }
    heard.n_steps++;
}

static void hear_eval(void *ctx, int64_t step, int64_t n_batches, double loss)
{
    (void)ctx;
    heard.n_batches = n_batches;
    heard.eval_step = step;
    heard.eval_loss = loss;
    heard.n_evals++;
}

static void hear_notice(void *ctx, const char *line)
{
    size_t used = strlen(heard.notices);

    (void)ctx;
    snprintf(heard.notices + used, sizeof(heard.notices) - used, "%s\n", line);
}

/* `sets` ends with NULL. */
static enum vp_status run(const char *output, const char *resume,
                          const char *const *sets)
{
    static const char text[] =
        "model_type: bert\nvocab: 64\nhidden: 16\nlayers: 4\nheads: 2\n"
        "ffn: 32\npositions: 16\ndropout: 0.0\ntie_embeddings: false\n"
        "synthetic_data: true\nseq_length: 8\nbatch_size: 4\n"
        "learning_rate: 0.01\nthreads_per_stage: 1\nprint_frequency: 2\n";
    static char arguments[3][16] = { "train", "a b", "c" };
    char *argv[] = { arguments[0], arguments[1], arguments[2] };
    struct vp_run_options options = {
        .output = output, .resume = resume, .argv = argv, .argc = 3
    };
    struct vp_run_events events = { .on_start = hear_start,
                                    .on_detail = hear_detail,
                                    .on_step = hear_step,
                                    .on_eval = hear_eval,
                                    .on_notice = hear_notice };
    struct vp_config config;
    struct vp_err err = { .text = "" };
    enum vp_status st;
    int n_sets = 0;

    memset(&heard, 0, sizeof(heard));
    while (sets[n_sets])
        n_sets++;
    st = vp_config_parse("test.yml", text, sizeof(text) - 1, sets, n_sets,
                         &config, &err);
    if (st == VP_OK)
        st = vp_run_train(&config, &options, &events, &err);
    vp_config_release(&config);
    snprintf(heard.error, sizeof(heard.error), "%.500s", err.text);
    return st;
}

static void must_run(const char *output, const char *resume,
                     const char *const *sets)
{
    if (run(output, resume, sets) != VP_OK)
        fail_msg("%s", heard.error);
}

static const char *folder_of(const char *name)
{
    static char path[2][160];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", root, name);
    return path[turn];
}

/* ---- The original's lines ----------------------------------------------- */

struct fake {
    struct vp_config config;
    struct vp_memory memory[3];
    struct vp_run_stage stages[3];
    struct vp_run_summary summary;
    struct vp_plan plan;
};

/* Three stages, the middle one on two ranks; an epoch of 12 steps. */
static void make_fake(struct fake *fake, int accumulation, int64_t every)
{
    *fake = (struct fake){
        .config = { .print_frequency = every,
                    .accumulation_steps = accumulation },
        .memory = { { .total = 1234000000 },
                    { .total = 2000000000 },
                    { .total = 500000 } },
        .stages = { { .n_params = 10, .first_rank = 0, .n_ranks = 1 },
                    { .n_params = 25, .first_rank = 1, .n_ranks = 2 },
                    { .n_params = 10, .first_rank = 3, .n_ranks = 1 } },
    };
    for (int s = 0; s < 3; s++)
        fake->stages[s].memory = &fake->memory[s];
    fake->summary = (struct vp_run_summary){
        .stages = fake->stages,
        .n_stages = 3,
        .n_ranks = 4,
        .steps_per_epoch = 12,
        .transport = "gloo",
    };
}

static void feed(struct vp_log *log, int64_t first, int64_t last)
{
    struct vp_err err;

    for (int64_t step = first; step <= last; step++) {
        struct vp_step_report report = { .step = step,
                                         .n_steps = log->summary->n_steps,
                                         .loss = 10.0 - (double)step,
                                         .seconds = (double)step };

        assert_int_equal(vp_log_step(log, &report, &err), VP_OK);
    }
}

static void open_log(struct vp_log *log, const struct fake *fake,
                     const char *name)
{
    struct vp_err err = { .text = "" };
    char command[128];

    snprintf(command, sizeof(command), "%s/%s", root, name);
    mkdir(command, 0777);
    if (vp_log_open(log, &fake->config, &fake->summary, folder_of(name),
                    &err) != VP_OK)
        fail_msg("%s", err.text);
}

/* Epochs of 12; print_frequency 2, so that 10 steps warm up. Step s takes s
 * seconds. */
static void test_log_lines(void **state)
{
    static const struct vp_score scores[] = {
        { .n_labels = 800.0, .loss = 2600.0 },
        { .n_labels = 810.0, .loss = 2835.0, .top1 = 100.0, .top5 = 405.0 },
        { .n_labels = 0.0 },
    };
    struct fake fake;
    struct vp_log log;
    struct vp_err err;
    char *text;

    (void)state;
    make_fake(&fake, 1, 2);
    open_log(&log, &fake, "lines");
    log.folder = "F";
    feed(&log, 1, 11);
    assert_int_equal(vp_log_eval(&log, 64, 65, 32.0, &scores[0], &err), VP_OK);
    assert_int_equal(vp_log_eval(&log, 65, 65, 32.5, &scores[1], &err), VP_OK);
    assert_int_equal(vp_log_eval(&log, 1, 1, 1.0, &scores[2], &err), VP_OK);
    assert_int_equal(vp_log_saved(&log, 11, &err), VP_OK);
    assert_int_equal(vp_log_line(&log, 2, "hello", &err), VP_OK);
    vp_log_close(&log);
    vp_log_close(&log);
    assert_int_equal(vp_log_line(&log, 2, "nobody", &err), VP_OK);

    assert_file(path_of("lines", "output.log.0"),
                "Finished initializing process group; backend: gloo, rank: 0, "
                "world_size: 4\n"
                "[Rank 0] Stage: 0, Rank in stage: 0\n"
                "Training...\n"
                "Epoch 0, Iteration 0, Loss: 9.0000\n"
                "Stage: [0] Epoch: [0][2/12]\tMemory: 1.234 (1.234)\n"
                "Epoch 0, Iteration 2, Loss: 7.0000\n"
                "Stage: [0] Epoch: [0][4/12]\tMemory: 1.234 (1.234)\n"
                "Epoch 0, Iteration 4, Loss: 5.0000\n"
                "Stage: [0] Epoch: [0][6/12]\tMemory: 1.234 (1.234)\n"
                "Epoch 0, Iteration 6, Loss: 3.0000\n"
                "Stage: [0] Epoch: [0][8/12]\tMemory: 1.234 (1.234)\n"
                "Epoch 0, Iteration 8, Loss: 1.0000\n"
                "Stage: [0] Epoch: [0][10/12]\tMemory: 1.234 (1.234)\n"
                "Epoch 0, Iteration 10, Loss: -1.0000\n"
                "Saved checkpoint to F/checkpoints/step-11\n");
    assert_file(path_of("lines", "output.log.3"),
                "Finished initializing process group; backend: gloo, rank: 3, "
                "world_size: 4\n"
                "[Rank 3] Stage: 2, Rank in stage: 0\n"
                "Training...\n"
                "Epoch 0, Iteration 0, Loss: 9.0000\n"
                "Epoch 0, Iteration 2, Loss: 7.0000\n"
                "Epoch 0, Iteration 4, Loss: 5.0000\n"
                "Epoch 0, Iteration 6, Loss: 3.0000\n"
                "Epoch 0, Iteration 8, Loss: 1.0000\n"
                "Epoch 0, Iteration 10, Loss: -1.0000\n"
                "Test: [0][64/65]\tTime: 0.500 (0.500)\tMemory: 0.001 (0.001)\t"
                "Loss: 3.2500 (3.2500)\t\n"
                "Test: [0][65/65]\tTime: 0.500 (0.500)\tMemory: 0.001 (0.001)\t"
                "Loss: 3.5000 (3.5000)\t\n"
                " * Prec@1 12.346 Prec@5 50.000\n"
                "Test: [0][1/1]\tTime: 1.000 (1.000)\tMemory: 0.001 (0.001)\t"
                "Loss: - (-)\t\n"
                "Saved checkpoint to F/checkpoints/step-11\n");
    text = read_text(path_of("lines", "output.log.2"));
    assert_non_null(strstr(text, "[Rank 2] Stage: 1, Rank in stage: 1\n"
                                 "Replicating stage: ranks=2, "
                                 "module_size=100.000\nTraining...\n"));
    assert_non_null(strstr(text, "Stage: [1] Epoch: [0][10/12]\tMemory: 2.000 "
                                 "(2.000)\nEpoch 0, Iteration 10, Loss: "
                                 "-1.0000\nhello\n"));
    assert_null(strstr(text, "Saved"));
    free(text);
}

/* Both steps after the warm-up take 11.5 s in the mean, of an epoch of 12; the
 * second epoch starts anew. */
static void test_log_times(void **state)
{
    static const char number[] = "Epoch ([0-9]+): ([0-9]+\\.[0-9]{3}) seconds";
    struct fake fake;
    struct vp_log log;
    char *text;

    (void)state;
    make_fake(&fake, 1, 2);
    open_log(&log, &fake, "times");
    feed(&log, 1, 24);
    vp_log_close(&log);
    text = read_text(path_of("times", "output.log.3"));
    /* 23 s are 0.006 hours; in full 11.5 x 12 = 138 s are 0.038. */
    assert_non_null(
        strstr(text, "Stage: [2] Epoch: [0][12/12]\tTime: 11.500 (11.500)\t"
                     "Epoch time [hr]: 0.006 (0.038)\tMemory: 0.001 (0.001)\t"
                     "Loss: -2.0000 (3.5000)\t\n"));
    assert_non_null(
        strstr(text, "Stage: [2] Epoch: [1][12/12]\tTime: 23.500 (23.500)\t"
                     "Epoch time [hr]: 0.013 (0.078)\tMemory: 0.001 (0.001)\t"
                     "Loss: -14.0000 (-8.5000)\t\n"));
    assert_int_equal(count_lines(text, number), 2);
    assert_int_equal(count_lines(text, "^Stage: "), 2);
    assert_int_equal(count_lines(text, "^Epoch start time: [0-9]+\\.[0-9]{3}, "
                                       "epoch end time: [0-9]+\\.[0-9]{3}$"),
                     2);
    assert_true(strstr(text, "Epoch 0: ") < strstr(text, "Epoch 1: "));
    free(text);
    text = read_text(path_of("times", "output.log.0"));
    assert_int_equal(count_lines(text, number), 2);
    assert_int_equal(count_lines(text, "^Stage: \\[0\\] Epoch: \\[1\\]"), 6);
    free(text);
}

/* The lines of a log that say the loss of an iteration. */
static void assert_losses(const char *path, const char *want)
{
    char *text = read_text(path), *save = NULL;
    char have[2048] = "";
    size_t used = 0;

    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save))
        if (strstr(line, ", Iteration "))
            used += (size_t)snprintf(have + used, sizeof(have) - used, "%s\n",
                                     line);
    assert_true(used < sizeof(have));
    assert_string_equal(have, want);
    free(text);
}

/* However short an epoch or a run is, the losses of its first and last steps
 * are logged. A step without labels has none. */
static void test_log_iterations(void **state)
{
    static const struct {
        int accumulation;
        int64_t every, last, n_steps;
        const char *want;
    } cases[] = {
        /* Epochs of 12, shorter than print_frequency. */
        { 1, 100, 24, 24,
          "Epoch 0, Iteration 0, Loss: 9.0000\n"
          "Epoch 0, Iteration 11, Loss: -2.0000\n"
          "Epoch 1, Iteration 0, Loss: -3.0000\n"
          "Epoch 1, Iteration 11, Loss: -14.0000\n" },
        /* A run that ends within its first epoch, and one that was stopped. */
        { 1, 100, 3, 3,
          "Epoch 0, Iteration 0, Loss: 9.0000\n"
          "Epoch 0, Iteration 2, Loss: 7.0000\n" },
        { 1, 100, 3, 4, "Epoch 0, Iteration 0, Loss: 9.0000\n" },
        { 1, 5, 12, 24,
          "Epoch 0, Iteration 0, Loss: 9.0000\n"
          "Epoch 0, Iteration 5, Loss: 4.0000\n"
          "Epoch 0, Iteration 10, Loss: -1.0000\n"
          "Epoch 0, Iteration 11, Loss: -2.0000\n" },
        /* Groups of 4, every 20 minibatches of 48. */
        { 4, 23, 12, 24,
          "Epoch 0, Iteration 0, Loss: 9.0000\n"
          "Epoch 0, Iteration 20, Loss: 4.0000\n"
          "Epoch 0, Iteration 40, Loss: -1.0000\n"
          "Epoch 0, Iteration 44, Loss: -2.0000\n" },
    };
    struct vp_step_report none = { .step = 1, .loss = (double)NAN };
    struct fake fake;
    struct vp_log log;
    struct vp_err err;
    char name[32];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        make_fake(&fake, cases[i].accumulation, cases[i].every);
        fake.summary.n_steps = cases[i].n_steps;
        snprintf(name, sizeof(name), "iterations%zu", i);
        open_log(&log, &fake, name);
        feed(&log, 1, cases[i].last);
        vp_log_close(&log);
        assert_losses(path_of(name, "output.log.0"), cases[i].want);
        assert_losses(path_of(name, "output.log.3"), cases[i].want);
    }
    make_fake(&fake, 1, 2);
    open_log(&log, &fake, "unlabelled");
    assert_int_equal(vp_log_step(&log, &none, &err), VP_OK);
    vp_log_close(&log);
    assert_losses(path_of("unlabelled", "output.log.0"),
                  "Epoch 0, Iteration 0, Loss: -\n");
    fake.summary.forward_only = true;
    open_log(&log, &fake, "untrained");
    vp_log_close(&log);
    assert_file(path_of("untrained", "output.log.0"),
                "Finished initializing process group; backend: gloo, rank: 0, "
                "world_size: 4\n"
                "[Rank 0] Stage: 0, Rank in stage: 0\n");
}

/* A loss scale has a word of its own, at the end. */
static void test_log_scale(void **state)
{
    struct vp_step_report report = { .step = 12,
                                     .loss = 2.0,
                                     .seconds = 1.0,
                                     .loss_scale = 0x1p24f,
                                     .n_skipped = 3 };
    struct fake fake;
    struct vp_log log;
    struct vp_err err;
    char *text;

    (void)state;
    make_fake(&fake, 1, 2);
    open_log(&log, &fake, "scale");
    assert_int_equal(vp_log_step(&log, &report, &err), VP_OK);
    vp_log_close(&log);
    text = read_text(path_of("scale", "output.log.3"));
    assert_non_null(strstr(text, "\tLoss: 2.0000 (2.0000)\tLoss scale: "
                                 "16777216 (3 skipped)\t\n"));
    free(text);
}

/* ---- Metrics ------------------------------------------------------------ */

static void check_metrics(const struct vp_step_report *report, const char *want)
{
    struct vp_folder folder = { .path = "F" };
    struct vp_err err;
    size_t n_bytes;
    char *text;

    folder.metrics = open_memstream(&text, &n_bytes);
    assert_non_null(folder.metrics);
    assert_int_equal(vp_folder_write_step(&folder, report, &err), VP_OK);
    fclose(folder.metrics);
    *strstr(text, "\"samples_per_second\"") = 0;
    assert_string_equal(strstr(text, "\"grad_norm\""), want);
    free(text);
}

static void test_metrics_are_rates(void **state)
{
    struct vp_step_report report = {
        .n_samples = 4, .n_tokens = 100, .flops = 3e12, .seconds = 0.5
    };
    struct vp_folder folder = { .path = "F" };
    struct vp_err err;
    size_t n_bytes;
    char *text;

    (void)state;
    folder.metrics = open_memstream(&text, &n_bytes);
    assert_non_null(folder.metrics);
    assert_int_equal(vp_folder_write_step(&folder, &report, &err), VP_OK);
    fclose(folder.metrics);
    assert_non_null(strstr(text, "\"samples_per_second\": 8, "
                                 "\"tokens_per_second\": 200, "
                                 "\"tflops\": 6, \"seconds\": 0.5, "));
    free(text);

    report.seconds = 0.0; /* nothing was measured */
    folder.metrics = open_memstream(&text, &n_bytes);
    assert_int_equal(vp_folder_write_step(&folder, &report, &err), VP_OK);
    fclose(folder.metrics);
    assert_non_null(strstr(text, "\"samples_per_second\": 0, "
                                 "\"tokens_per_second\": 0, "
                                 "\"tflops\": 0, \"seconds\": 0, "));
    free(text);
}

/* What was skipped has no norm; that is no number in JSON. */
static void test_metrics_of_a_scale(void **state)
{
    const double norms[] = { 0.5, (double)INFINITY, 2.0 };
    struct vp_step_report report = { .grad_norm = 0.25, .seconds = 1.0 };

    (void)state;
    check_metrics(&report, "\"grad_norm\": 0.25, ");
    report.loss_scale = 65536.0f;
    report.n_skipped = 3;
    check_metrics(&report, "\"grad_norm\": 0.25, \"loss_scale\": 65536, "
                           "\"skipped\": 3, ");
    report.grad_norm = (double)INFINITY;
    check_metrics(&report, "\"grad_norm\": null, \"loss_scale\": 65536, "
                           "\"skipped\": 3, ");
    report.stage_norms = norms;
    report.n_stages = 3;
    report.prices = (const struct vp_stage_price[3]){ { .staging = 0 } };
    check_metrics(&report, "\"grad_norm\": [0.5, null, 2], \"loss_scale\": "
                           "65536, \"skipped\": 3, ");
}

/* Several lines of an epoch have the mean of their times, and a run that goes
 * on in the middle of one measures what it sees. */
static void test_log_means(void **state)
{
    struct fake fake;
    struct vp_log log;
    char *text;

    (void)state;
    make_fake(&fake, 1, 1);
    open_log(&log, &fake, "means");
    feed(&log, 1, 7);
    vp_log_close(&log);
    fake.summary.resumed = 6;
    fake.summary.resumed_from = "runs/x";
    open_log(&log, &fake, "means");
    feed(&log, 7, 8);
    vp_log_close(&log);
    text = read_text(path_of("means", "output.log.3"));
    assert_non_null(strstr(text, "[0][6/12]\tTime: 6.000 (6.000)\t"));
    assert_non_null(strstr(text, "[0][7/12]\tTime: 7.000 (6.500)\t"));
    assert_non_null(strstr(text, "Resumed from checkpoint step 6\n"
                                 "=> loading checkpoint 'runs/x'\n"
                                 "=> loaded checkpoint 'runs/x' (epoch 0)\n"
                                 "Finished initializing process group"));
    assert_non_null(strstr(text, "[0][7/12]\tTime: 7.000 (7.000)\t"));
    assert_non_null(strstr(text, "[0][8/12]\tTime: 8.000 (7.500)\t"));
    free(text);
}

/* In bsp steps are groups: print_frequency 10 is 8 minibatches. */
static void test_log_groups(void **state)
{
    struct fake fake;
    struct vp_log log;
    char *text;

    (void)state;
    make_fake(&fake, 4, 10);
    open_log(&log, &fake, "groups");
    feed(&log, 1, 12);
    vp_log_close(&log);
    text = read_text(path_of("groups", "output.log.0"));
    for (int at = 8; at <= 48; at += 8) {
        char line[64];

        snprintf(line, sizeof(line), "Epoch: [0][%d/48]\t", at);
        assert_non_null(strstr(text, line));
    }
    assert_int_equal(count_lines(text, "^Stage: "), 6);
    free(text);
    text = read_text(path_of("groups", "output.log.3"));
    /* Steps 11 and 12 are timed: 23 s for 8 minibatches. */
    assert_int_equal(count_lines(text, "^Stage: "), 1);
    assert_non_null(strstr(text, "[0][48/48]\tTime: 2.875 (2.875)\t"));
    free(text);
    make_fake(&fake, 4, 2);
    open_log(&log, &fake, "groups2");
    assert_int_equal(log.every, 4);
    vp_log_close(&log);
}

/* ---- The folder --------------------------------------------------------- */

static void test_describe(void **state)
{
    static const struct vp_machine machines[] = {
        { "b", 0 }, { "a", 0 }, { "b", 1 }, { "c", 0 }, { "a", 1 }
    };
    static char words[][24] = { "train", "x.yml", "--set", "partition=[1, 2]",
                                "it's",  "",      "a\nb'c" };
    char *argv[7];
    struct fake fake;
    struct vp_folder folder = { .lock = -1 };
    struct vp_err err = { .text = "" };

    (void)state;
    for (int i = 0; i < 7; i++)
        argv[i] = words[i];
    make_fake(&fake, 1, 2);
    snprintf(folder.path, sizeof(folder.path), "%s", root);
    fake.plan = (struct vp_plan){
        .n_stages = 3,
        .partition = (const int[]){ 3, 4, 5 },
        .recompute_ratio = (const double[]){ 0.3, 1.0 / 3, 1 },
        .accumulation_steps = 4,
        .devices = (const int[]){ 1, 2, 3 }
    };
    fake.summary.n_blocks = 12;
    fake.summary.bubble_simulated = 0.25;
    assert_int_equal(vp_folder_describe(&folder, &fake.config, &fake.plan,
                                        &fake.summary, argv, 2, &err),
                     VP_OK);
    assert_file(path_of(".", "machinefile"), "localhost\n");
    fake.config.machines = (struct vp_machine_list){ machines, 5 };
    assert_int_equal(vp_folder_describe(&folder, &fake.config, &fake.plan,
                                        &fake.summary, argv, 7, &err),
                     VP_OK);
    assert_int_equal(vp_folder_describe(&folder, &fake.config, &fake.plan,
                                        &fake.summary, argv, 0, &err),
                     VP_OK);
    assert_file(path_of(".", "machinefile"), "b slots=2\na slots=2\nc\n");
    assert_file(path_of(".", "plan.json"),
                "{\n    \"partition\": [3, 4, 5],\n"
                "    \"recompute_ratio\": [0.3, 0.33333333333333331, 1],\n"
                "    \"version\": 1,\n"
                "    \"schedule\": \"1f1b\",\n"
                "    \"early_recompute\": false,\n"
                "    \"accumulation_steps\": 4,\n"
                "    \"stages\": 3,\n"
                "    \"tensor_parallel\": 1,\n"
                "    \"compress_activations\": false,\n"
                "    \"forecast\": {\"memory\": [1234000000, 2000000000, "
                "500000], \"memory_kinds\": {\"weights\": [0, 0, 0], "
                "\"gradients\": [0, 0, 0], \"moments\": [0, 0, 0], "
                "\"activations\": [0, 0, 0], \"boundary\": [0, 0, 0], "
                "\"work\": [0, 0, 0]}, \"bubble\": 0.25}\n}\n");
    assert_file(path_of(".", "command_history.log"),
                "vpipe train x.yml\n"
                "vpipe train x.yml --set 'partition=[1, 2]' 'it'\\''s' '' "
                "$'a\\012b\\'c'\n");
    snprintf(folder.path, sizeof(folder.path), "%s/none", root);
    assert_int_equal(vp_folder_describe(&folder, &fake.config, &fake.plan,
                                        &fake.summary, argv, 2, &err),
                     VP_ERR_IO);
    assert_non_null(strstr(err.text, "none/machinefile: cannot be written"));
}

/* A run's plan.json says the same as its configuration, and its logs are those
 * of the user's numbers of ranks. */
static void test_folder_of_run(void **state)
{
    const char *const sets[] = { "stages=3",
                                 "sync_mode=asp",
                                 "total_steps=14",
                                 "num_minibatches=7",
                                 "print_frequency=1",
                                 "eval_every=7",
                                 "recompute_ratio=[0.5, 0, 0]",
                                 NULL };
    static const char path[] = "partition=%s";
    char plan[300], *text;
    const char *const again[] = { plan,
                                  "sync_mode=asp",
                                  "total_steps=14",
                                  "num_minibatches=7",
                                  "eval_every=7",
                                  NULL };
    double losses[14];

    (void)state;
    must_run(folder_of("first"), NULL, sets);
    memcpy(losses, heard.losses, sizeof(losses));
    for (int i = 0; i < 14; i++)
        assert_int_equal(heard.epochs[i], i / 7);
    assert_file(path_of("first", "machinefile"), "localhost slots=3\n");
    assert_file(path_of("first", "command_history.log"),
                "vpipe train 'a b' c\n");
    for (int r = 0; r < 3; r++) {
        char name[32];

        snprintf(name, sizeof(name), "output.log.%d", r);
        text = read_text(path_of("first", name));
        assert_int_equal(count_lines(text, "^Epoch [01]: [0-9.]+ seconds$"), 2);
        assert_int_equal(count_lines(text, "^ \\* "), r == 2 ? 2 : 0);
        assert_int_equal(count_lines(text, "^Stage: "), r == 2 ? 4 : 14);
        assert_int_equal(count_lines(text, "^Epoch [01], Iteration [0-6], "
                                           "Loss: [0-9]+\\.[0-9]{4}$"),
                         14);
        assert_int_equal(count_lines(text, "^Saved checkpoint to "
                                           ".*/first/checkpoints/step-14$"),
                         1);
        free(text);
    }
    snprintf(plan, sizeof(plan), path, path_of("first", "plan.json"));
    must_run(folder_of("second"), NULL, again);
    assert_memory_equal(losses, heard.losses, sizeof(losses));
    text = read_text(path_of("first", "plan.json"));
    assert_file(path_of("second", "plan.json"), text);
    free(text);
}

/* A plan that names recomputed operators changes no loss, and the stages take
 * the memory that was priced for it: less than without. */
static void test_plan_with_sets(void **state)
{
    static const char kept[] = "{\"partition\": [4, 3, 2]}";
    static const char plan_text[] =
        "{\"partition\": [4, 3, 2], \"recompute\": [[0, 1], [0, 1, 2, 3], "
        "[1, 2, 3], [0, 2], [3], [], [0, 1, 2, 3], [1], [0]]}";
    const char *const texts[] = { kept, plan_text };
    char path[300];
    const char *const sets[] = { path, "total_steps=4", "accumulation_steps=4",
                                 "dropout=0.1", NULL };
    double losses[2][4];
    int64_t n_bytes[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "kept" : "sets";
        FILE *f = fopen(path_of(".", "sets.json"), "w");
        char *text;

        assert_true(f && fputs(texts[i], f) >= 0 && fclose(f) == 0);
        snprintf(path, sizeof(path), "partition=%s", path_of(".", "sets.json"));
        atomic_store(&n_device_bytes, 0);
        must_run(folder_of(name), NULL, sets);
        assert_int_equal(atomic_load(&n_device_bytes), heard.n_bytes);
        n_bytes[i] = heard.n_bytes;
        memcpy(losses[i], heard.losses, sizeof(losses[i]));
        text = read_text(path_of(name, "plan.json"));
        assert_int_equal(strstr(text, "\"recompute\": [") != NULL, i == 1);
        free(text);
    }
    assert_memory_equal(losses[0], losses[1], sizeof(losses[0]));
    assert_true(n_bytes[1] < n_bytes[0]);
}

/* A run's plan.json gives the same plan and the same losses, whatever made it. */
static void test_plan_given_back(void **state)
{
    static const char *const cases[][6] = {
        { "schedule=gpipe", "stages=3", "recompute_ratio=[1, 0.5, 0]" },
        { "schedule=zb-v", "stages=2", "early_recompute=false" },
        { "schedule=interleaved", "partition=[1, 3, 2, 3]",
          "accumulation_steps=4" },
        { "schedule=auto", "stages=2" },
        { "schedule=auto", "stages=2", "chunks=2", "schedule_memory=6" },
        { "stages=2", "replicas=[1, 2]", "ranks=[2, 0, 1]",
          "warmup_depths=[2, 0]" },
        { "stages=2", "sync_mode=asp", "macrobatch=true" },
        { "stages=2", "recompute=false", "compress_activations=true" },
        { "stages=1", "recompute_ratio=1" },
    };
    char plan[300], *text;
    const char *const again[] = { plan, "total_steps=3", NULL };
    double losses[3];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *sets[8] = { "total_steps=3" };
        char first[32], second[32];

        memcpy(sets + 1, cases[i], sizeof(cases[i]));
        snprintf(first, sizeof(first), "given%zu", i);
        snprintf(second, sizeof(second), "back%zu", i);
        must_run(folder_of(first), NULL, sets);
        memcpy(losses, heard.losses, sizeof(losses));
        snprintf(plan, sizeof(plan), "partition=%s",
                 path_of(first, "plan.json"));
        must_run(folder_of(second), NULL, again);
        assert_memory_equal(losses, heard.losses, sizeof(losses));
        text = read_text(path_of(first, "plan.json"));
        assert_file(path_of(second, "plan.json"), text);
        free(text);
    }
}

static bool has_step(const char *folder, int step)
{
    char name[64];

    snprintf(name, sizeof(name), "checkpoints/step-%d/manifest.json", step);
    return access(path_of(folder, name), F_OK) == 0;
}

/* Checkpoints that a run has left, of steps 1 to 64, as bits. */
static uint64_t saved_steps(const char *folder)
{
    uint64_t steps = 0;

    for (int step = 1; step <= 64; step++)
        steps |= (uint64_t)has_step(folder, step) << (step - 1);
    return steps;
}

#define STEP(n) (UINT64_C(1) << ((n)-1))

/* Epochs of 7 minibatches, three of them. Groups of 2 make 3 updates of an
 * epoch. A stage on two ranks ends its rounds at even minibatches, and the last
 * one is the end of the run. */
static void test_checkpoints_of_epochs(void **state)
{
    static const struct {
        const char *sets[4];
        uint64_t want;
        int early, last; /* a step within an epoch, and that of the end */
    } cases[] = {
        { { "stages=3", "sync_mode=asp" },
          STEP(7) | STEP(14) | STEP(21),
          5,
          21 },
        { { "stages=2", "sync_mode=bsp", "accumulation_steps=2" },
          STEP(3) | STEP(6) | STEP(9),
          4,
          9 },
        { { "stages=2", "sync_mode=asp", "replicas=[2, 1]" },
          STEP(8) | STEP(14) | STEP(21),
          10,
          21 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *sets[10] = { "checkpoint_every=epoch", "num_minibatches=7",
                                 "epochs=3", "keep_checkpoints=9",
                                 "learning_rate_policy=constant" };
        char name[32], part[32], stop[32];
        uint64_t before = STEP(cases[i].early + 1) - 1;
        double losses[64];
        int n = 5;

        for (int k = 0; cases[i].sets[k]; k++)
            sets[n++] = cases[i].sets[k];
        snprintf(name, sizeof(name), "epochs%zu", i);
        must_run(folder_of(name), NULL, sets);
        memcpy(losses, heard.losses, sizeof(losses));
        assert_int_equal(heard.n_steps, cases[i].last);
        assert_true(saved_steps(name) == cases[i].want);
        /* In two parts: the same, and the end of the first part. */
        snprintf(part, sizeof(part), "parts%zu", i);
        snprintf(stop, sizeof(stop), "total_steps=%d", cases[i].early);
        sets[n] = stop;
        must_run(folder_of(part), NULL, sets);
        assert_true(saved_steps(part) ==
                    ((cases[i].want & before) | STEP(cases[i].early)));
        sets[n] = NULL;
        must_run(NULL, folder_of(part), sets);
        assert_true(saved_steps(part) ==
                    (cases[i].want | STEP(cases[i].early)));
        for (int s = cases[i].early; s < cases[i].last; s++)
            assert_true(heard.losses[s] == losses[s]);
    }
}

/* ---- Seeing inside ------------------------------------------------------ */

static int max0(int n)
{
    return n > 0 ? n : 0;
}

/* Every stage of an asynchronous pipeline uses version max(0, m - depth), in
 * forward and backward, and writes the next one. */
static void test_versions_asp(void **state)
{
    const char *const sets[] = {
        "stages=3",           "sync_mode=asp",       "total_steps=12",
        "verbose=[versions]", "verbose_frequency=1", NULL
    };
    int at = 0;

    (void)state;
    must_run(folder_of("versions"), NULL, sets);
    for (int m = 0; m < 12; m++)
        for (int s = 0; s < 3; s++) {
            int version = max0(m - (2 - s));
            char want[3][160];

            snprintf(want[0], sizeof(want[0]),
                     "versions: stage %d: F of minibatch %d uses version %d", s,
                     m, version);
            snprintf(want[1], sizeof(want[1]),
                     "versions: stage %d: B of minibatch %d uses version %d", s,
                     m, version);
            snprintf(want[2], sizeof(want[2]),
                     "versions: stage %d: update after minibatch %d writes "
                     "version %d",
                     s, m, m + 1);
            for (int i = 0; i < 3; i++, at++) {
                assert_true(at < heard.n_lines);
                assert_int_equal(heard.rank[at], s);
                assert_string_equal(heard.line[at], want[i]);
            }
        }
    assert_int_equal(at, heard.n_lines);
}

/* Synchronous: one version for a whole group, on each of four schedules. */
static void test_versions_bsp(void **state)
{
    static const char *const schedules[] = { "schedule=gpipe", "schedule=1f1b",
                                             "schedule=zb-h1",
                                             "schedule=interleaved" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(schedules); i++) {
        const char *const sets[] = { "stages=2",
                                     "sync_mode=bsp",
                                     "accumulation_steps=4",
                                     "total_steps=6",
                                     "verbose=[versions]",
                                     "verbose_frequency=3",
                                     schedules[i],
                                     NULL };
        char name[32];
        int n_updates = 0;

        snprintf(name, sizeof(name), "bsp%zu", i);
        must_run(folder_of(name), NULL, sets);
        assert_true(heard.n_lines > 0);
        for (int l = 0; l < heard.n_lines; l++) {
            int stage, m, version;
            char kind;

            if (sscanf(heard.line[l],
                       "versions: stage %d: update after minibatch %d writes "
                       "version %d",
                       &stage, &m, &version) == 3) {
                assert_true(m == 11 || m == 23);
                assert_int_equal(version, (m + 1) / 4);
                n_updates++;
                continue;
            }
            assert_int_equal(
                sscanf(heard.line[l],
                       "versions: stage %d: %c of minibatch %d uses version %d",
                       &stage, &kind, &m, &version),
                4);
            assert_true((m >= 8 && m < 12) || (m >= 20 && m < 24));
            assert_int_equal(version, m / 4);
        }
        assert_int_equal(n_updates, i == 3 ? 8 : 4);
    }
}

/* The life of a boundary tensor: both ends, both ways, the same every time. */
static void test_tensors(void **state)
{
    const char *const sets[] = {
        "stages=3",          "sync_mode=asp",       "total_steps=10",
        "verbose=[tensors]", "verbose_frequency=5", NULL
    };
    static struct heard first;
    int n_ways[2] = { 0, 0 };

    (void)state;
    must_run(folder_of("tensors"), NULL, sets);
    first = heard;
    must_run(folder_of("tensors2"), NULL, sets);
    assert_int_equal(first.n_lines, heard.n_lines);
    for (int l = 0; l < first.n_lines; l++) {
        const char *tail = strstr(first.line[l], " [32 x 16] norm ");
        bool back = strstr(first.line[l], ": gradient of ");
        int m, from, to, message;
        double norm;

        assert_string_equal(first.line[l], heard.line[l]);
        assert_non_null(tail);
        assert_int_equal(sscanf(first.line[l], "tensors: minibatch %d: ", &m),
                         1);
        assert_int_equal(sscanf(tail,
                                " [32 x 16] norm %lf, rank %d -> rank %d, "
                                "message %d",
                                &norm, &from, &to, &message),
                         4);
        assert_true(m == 4 || m == 9);
        assert_int_equal(message, m);
        assert_true(isfinite(norm) && norm > 0.0);
        assert_int_equal(from, first.rank[l]);
        assert_int_equal(to, back ? from - 1 : from + 1);
        n_ways[back]++;
    }
    assert_int_equal(n_ways[0], 4);
    assert_int_equal(n_ways[1], 4);
}

/* Times in the original's table, traffic by link, stages once. */
static void test_time(void **state)
{
    const char *const sets[] = { "stages=2",
                                 "sync_mode=bsp",
                                 "accumulation_steps=3",
                                 "total_steps=4",
                                 "verbose=[stages, communication, time]",
                                 "verbose_frequency=4",
                                 NULL };
    static const char *const want[] = {
        "^Forward Stats:$",
        "^\t compute_time [0-9]+\\.[0-9]{3} seconds$",
        "^\t receive_tensors [0-9]+\\.[0-9]{3} seconds$",
        "^\t receive_tensors_size [0-9]+\\.000 bytes$",
        "^\t send_tensors [0-9]+\\.[0-9]{3} seconds$",
        "^\t send_tensors_size [0-9]+\\.000 bytes$",
        "^Backward Stats:$",
    };
    char *text;

    (void)state;
    must_run(folder_of("time"), NULL, sets);
    assert_int_equal(heard.n_lines, 2 + 2 * (1 + 13));
    for (int r = 0; r < 2; r++) {
        char name[32];

        assert_int_equal(heard.rank[r], r);
        assert_int_equal(
            count_lines(heard.line[r],
                        r == 0
                            ? "^stages: rank 0 has stage 0 of 2: blocks "
                              "0-[0-9], [0-9]+ parameters, depth 1, 2 slots, "
                              "1 versions, 0 of [0-9]+ lines"
                            : "^stages: rank 1 has stage 1 of 2: blocks "
                              "[0-9]-8, [0-9]+ parameters, depth 0, 1 slots, "
                              "1 versions, 0 of [0-9]+ lines"),
            1);
        /* 12 minibatches, each one message on and one back. */
        assert_int_equal(
            count_lines(heard.line[2 + 14 * r],
                        r == 0 ? "^communication: stage 0 -> stage 1: 12 "
                                 "messages, [1-9][0-9]+ bytes$"
                               : "^communication: stage 1 -> stage 0: 12 "
                                 "messages, [1-9][0-9]+ bytes$"),
            1);
        for (size_t i = 0; i < VP_COUNT_OF(want); i++)
            assert_int_equal(
                count_lines(heard.line[3 + 14 * r + (int)i], want[i]), 1);
        assert_int_equal(count_lines(heard.line[15 + 14 * r],
                                     "^Optimizer step took: "
                                     "[0-9]+\\.[0-9]{3}$"),
                         1);
        snprintf(name, sizeof(name), "output.log.%d", r);
        text = read_text(path_of("time", name));
        assert_int_equal(count_lines(text, "^\t "), 10);
        assert_int_equal(count_lines(text, "^stages: "), 1);
        free(text);
    }
    /* What one rank sends, the other receives. */
    assert_string_equal(heard.line[2 + 6] + 8, heard.line[2 + 14 + 4] + 11);
}

/* Nothing asked, nothing said. */
static void test_silence(void **state)
{
    const char *const sets[] = { "stages=2", "total_steps=2", NULL };

    (void)state;
    must_run(folder_of("silent"), NULL, sets);
    assert_int_equal(heard.n_lines, 0);
    assert_int_equal(heard.n_steps, 2);
}

/* ---- num_minibatches, forward_only -------------------------------------- */

/* A capped epoch is the beginning of the whole one. */
static void test_capped_data(void **state)
{
    struct vp_dims dims[2] = { { 4, 8, 0, 8 }, { 4, 8, 0, 32 } };
    struct vp_data_config config = {
        .source = VP_DATA_SYNTHETIC,
        .task = VP_DATA_MASKED_LM,
        .vocab = 64,
        .seed = 3,
        .mask_prob = 0.15f,
        .dims = dims,
        .n_dims = 2,
    };
    struct vp_data *whole, *capped;
    struct vp_batch *a, *b;
    struct vp_err err = { .text = "" };
    int64_t n;

    (void)state;
    assert_int_equal(vp_data_open(&config, &whole, &err), VP_OK);
    config.max_batches = 5;
    assert_int_equal(vp_data_open(&config, &capped, &err), VP_OK);
    n = vp_data_info(whole)->n_batches;
    assert_true(n > 5);
    assert_int_equal(vp_data_info(capped)->n_batches, 5);
    assert_int_equal(vp_batch_create(whole, &a), VP_OK);
    assert_int_equal(vp_batch_create(capped, &b), VP_OK);
    for (int64_t m = 0; m < 15; m++) {
        uint64_t same = (uint64_t)(m / 5 * n + m % 5);

        assert_int_equal(vp_data_fill(whole, same, a, &err), VP_OK);
        assert_int_equal(vp_data_fill(capped, (uint64_t)m, b, &err), VP_OK);
        assert_memory_equal(a->array[VP_ROLE_TOKENS], b->array[VP_ROLE_TOKENS],
                            4 * 8 * sizeof(int32_t));
        assert_int_equal(a->first_sample, b->first_sample);
    }
    vp_batch_free(a);
    vp_batch_free(b);
    vp_data_close(whole);
    vp_data_close(capped);
    config.max_batches = n + 1;
    assert_int_equal(vp_data_open(&config, &capped, &err), VP_OK);
    assert_int_equal(vp_data_info(capped)->n_batches, n);
    vp_data_close(capped);
}

static void write_lines(const char *path, const char *line, int n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (int i = 0; i < n; i++)
        fputs(line, f);
    assert_int_equal(fclose(f), 0);
}

/* Bytes that are not text end a run before it makes anything, unless they are
 * to be replaced. What was replaced and what was not taken is said once. */
static void test_text_notices(void **state)
{
    char data_dir[300];
    const char *sets[] = { data_dir,
                           "synthetic_data=false",
                           "vocab=260",
                           "total_steps=2",
                           "eval_every=1",
                           "device=cpu",
                           "invalid_utf8=refuse",
                           NULL };
    struct stat info;

    (void)state;
    snprintf(data_dir, sizeof(data_dir), "data_dir=%s", folder_of("texts"));
    mkdir(folder_of("texts"), 0777);
    write_lines(path_of("texts", "a.txt"), "caf\xE9 au lait\n", 100);
    write_lines(path_of("texts", "b.rst"), "not taken\n", 1);
    assert_int_equal(run(folder_of("text_run"), NULL, sets), VP_ERR_INVALID);
    assert_non_null(strstr(heard.error, "/texts/a.txt: offset 3 (line 1): not "
                                        "UTF-8: E9; convert the file"));
    assert_string_equal(heard.notices, "");
    assert_int_equal(stat(folder_of("text_run"), &info), -1);
    sets[6] = "invalid_utf8=replace";
    must_run(folder_of("text_run"), NULL, sets);
    assert_int_equal(count_lines(heard.notices, "."), 2);
    assert_int_equal(count_lines(heard.notices,
                                 "/texts: 1 file taken as text; not taken: "
                                 "[.]rst 1; "),
                     1);
    assert_int_equal(count_lines(heard.notices,
                                 "in place of 100 NUL bytes or invalid UTF-8 "
                                 "sequences in 1 file, the first in .*/a.txt, "
                                 "offset 3$"),
                     1);
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

/* Only looks: the same loss as the run's own evaluation of the same batches,
 * and nothing in its folder changes. */
static void test_forward_only(void **state)
{
    const char *const sets[] = { "total_steps=6", "eval_every=6",
                                 "eval_batches=1000000", NULL };
    const char *const look[] = { "total_steps=6", "forward_only=true", NULL };
    const char *const look3[] = { "total_steps=6", "forward_only=true",
                                  "stages=3", "accumulation_steps=1", NULL };
    const char *const capped[] = { "forward_only=true", "num_minibatches=3",
                                   NULL };
    int n = 0, n_runs;
    double loss;
    char *before, *text;

    (void)state;
    must_run(folder_of("trained"), NULL, sets);
    loss = heard.eval_loss;
    n = count_entries(folder_of("trained"));
    before = read_text(path_of("trained", "metrics.jsonl"));
    n_runs = count_entries(root);
    must_run(NULL, folder_of("trained"), look);
    assert_int_equal(heard.n_evals, 1);
    assert_int_equal(heard.n_steps, 0);
    assert_int_equal(heard.eval_step, 6);
    assert_true(heard.n_batches > 3);
    assert_true(heard.eval_loss == loss);
    must_run(NULL, folder_of("trained"), look3);
    assert_true(heard.eval_loss == loss);
    assert_int_equal(count_entries(folder_of("trained")), n);
    assert_int_equal(count_entries(root), n_runs);
    assert_file(path_of("trained", "metrics.jsonl"), before);
    free(before);

    must_run(folder_of("looked"), NULL, capped);
    assert_true(heard.eval_loss != loss);
    assert_int_equal(heard.eval_step, 0);
    assert_int_equal(heard.n_batches, 3);
    text = read_text(path_of("looked", "metrics.jsonl"));
    assert_int_equal(count_lines(text, "."), 1);
    assert_int_equal(count_lines(text, "^\\{\"step\": 0, \"eval_loss\": "), 1);
    free(text);
    text = read_text(path_of("looked", "output.log.0"));
    assert_int_equal(count_lines(text, "^Test: \\[0\\]\\[3/3\\]\t"), 1);
    free(text);
    assert_int_not_equal(access(path_of("looked", "checkpoints"), F_OK), 0);
}

/* A run tells its listeners, and its trace, the user's numbers. */
static void test_ranks_have_user_numbers(void **state)
{
    static const char *const sets[] = { "stages=3", "ranks=[2, 0, 1]",
                                        "total_steps=2", NULL };
    char *text;

    (void)state;
    must_run(folder_of("placed"), NULL, sets);
    assert_int_equal(heard.ranks[0], 2);
    assert_int_equal(heard.ranks[1], 0);
    assert_int_equal(heard.ranks[2], 1);
    text = read_text(path_of("placed", "output.log.2"));
    assert_non_null(strstr(text, "\n[Rank 2] Stage: 0, Rank in stage: 0\n"));
    free(text);
    text = read_text(path_of("placed", "trace.json"));
    assert_non_null(strstr(text, "\"rank_numbers\":[2,0,1]"));
    free(text);
}

/* ---- The screen --------------------------------------------------------- */

struct screen {
    struct progress progress;
    struct fake fake;
    float scale;
    char *text;
    size_t n_bytes;
};

static void open_screen(struct screen *screen, bool terminal)
{
    FILE *out = open_memstream(&screen->text, &screen->n_bytes);

    make_fake(&screen->fake, 1, 1);
    screen->fake.summary.output = "runs/x";
    screen->fake.summary.model = "bert";
    screen->fake.summary.data = "data";
    screen->fake.summary.schedule = "1f1b";
    progress_init(&screen->progress, out, 1);
    screen->progress.terminal = terminal;
    screen->progress.utf8 = false;
    progress_start(&screen->progress, &screen->fake.summary);
}

static void close_screen(struct screen *screen)
{
    fclose(screen->progress.out);
    free(screen->text);
}

/* What was written since the last call. */
static const char *look(struct screen *screen)
{
    static char text[16384];

    fflush(screen->progress.out);
    snprintf(text, sizeof(text), "%s", screen->text);
    rewind(screen->progress.out);
    memset(screen->text, 0, screen->n_bytes);
    return text;
}

/* The table has the user's numbers of the ranks, not those of the schedule. */
static void test_table_has_user_numbers(void **state)
{
    static const struct {
        int numbers[4];
        const char *ranks[3];
    } cases[] = {
        { { 0, 1, 2, 3 }, { "0", "1-2", "3" } },
        { { 3, 1, 0, 2 }, { "3", "1,0", "2" } },
        { { 0, 3, 1, 2 }, { "0", "3,1", "2" } },
        { { 1, 2, 3, 0 }, { "1", "2-3", "0" } },
    };
    static struct screen screen;

    (void)state;
    for (size_t i = 0; i <= VP_COUNT_OF(cases); i++) {
        size_t k = i % VP_COUNT_OF(cases); /* the last one: no numbers */
        const char *text;

        open_screen(&screen, false);
        look(&screen);
        screen.fake.summary.rank_numbers = i == k ? cases[k].numbers : NULL;
        progress_start(&screen.progress, &screen.fake.summary);
        text = look(&screen);
        for (int s = 0; s < 3; s++) {
            char row[64];

            snprintf(row, sizeof(row), "\n%5d  %5s  ", s, cases[k].ranks[s]);
            if (!strstr(text, row))
                fail_msg("case %d: no '%s' in%s", (int)i, row + 1, text);
        }
        close_screen(&screen);
    }
}

/* Many replicas whose numbers are no range: cut, and said so. */
static void test_table_cuts_long_lists(void **state)
{
    static struct screen screen;
    int numbers[66];
    const char *text;

    (void)state;
    open_screen(&screen, false);
    for (int r = 0; r < 66; r++)
        numbers[r] = 65 - r;
    screen.fake.stages[1].n_ranks = 64;
    screen.fake.stages[2].first_rank = 65;
    screen.fake.summary.rank_numbers = numbers;
    screen.fake.summary.n_ranks = 66;
    progress_start(&screen.progress, &screen.fake.summary);
    text = strstr(look(&screen), "  64,63,62,");
    assert_non_null(text);
    assert_in_range(strcspn(text + 2, " "), 55, 63);
    assert_memory_equal(text + 2 + strcspn(text + 2, " ") - 4, ",...", 4);
    close_screen(&screen);
}

/* Stage 0 is busy for half of the time, stage 1 for all, stage 2 never. */
static void show_step(struct screen *screen, int64_t step)
{
    int64_t s = 1000000000;
    struct vp_stage_stats stats[3] = {
        { .forward_ns = step * s / 4,
          .backward_ns = step * s / 4,
          .n_forward = step + 2,
          .n_backward = step },
        { .forward_ns = step * s,
          .backward_ns = step * s,
          .n_forward = step + 1,
          .n_backward = step },
        { .n_forward = step, .n_backward = step },
    };
    struct vp_step_report report = {
        .step = step,
        .n_steps = 9,
        .loss = 2.5,
        .seconds = 1.0,
        .n_tokens = 1500,
        .n_stages = 3,
        .bubble = 0.25,
        .flops = 1e9,
        .loss_scale = screen->scale,
        .n_skipped = 7,
    };

    screen->progress.drawn_ns = 0;
    progress_stages(&screen->progress, stats);
    progress_step(&screen->progress, &report);
}

/* Neither 0 nor nan stands where there is no loss. */
static void test_no_labels(void **state)
{
    static struct screen screen;
    struct vp_step_report report = {
        .step = 1, .n_steps = 9, .loss = (double)NAN, .seconds = 1.0
    };
    struct vp_err err = { .text = "" };
    struct vp_log log;
    const char *text;
    char *lines;

    (void)state;
    open_screen(&screen, false);
    look(&screen);
    progress_step(&screen.progress, &report);
    text = look(&screen);
    assert_non_null(strstr(text, "1/9  no labels "));
    assert_null(strstr(text, "nan"));
    progress_eval(&screen.progress, 1, 1, (double)NAN);
    assert_string_equal(look(&screen),
                        "eval at step 1: no labels in 1 batch\n");
    progress_eval(&screen.progress, 2, 3, 2.5);
    assert_string_equal(look(&screen),
                        "eval at step 2: loss 2.5000 over 3 batches\n");
    close_screen(&screen);

    make_fake(&screen.fake, 1, 1);
    open_log(&log, &screen.fake, "unlabelled");
    for (report.step = 6; report.step <= 8; report.step++) {
        report.loss = report.step == 7 ? 2.5 : (double)NAN;
        assert_int_equal(vp_log_step(&log, &report, &err), VP_OK);
    }
    vp_log_close(&log);
    lines = read_text(path_of("unlabelled", "output.log.3"));
    assert_non_null(strstr(lines, "[6/12]"));
    assert_int_equal(count_lines(lines, "6/12.*Loss: - \\(-\\)"), 1);
    assert_int_equal(count_lines(lines, "7/12.*Loss: 2.5000 \\(2.5000\\)"), 1);
    assert_int_equal(count_lines(lines, "8/12.*Loss: - \\(2.5000\\)"), 1);
    free(lines);
}

static const char rows_1[] =
    "stage 0  [#####-----] busy  50%  bubble  50%  F 3      B 1       1.15 "
    "GiB\x1b[K\n"
    "stage 1  [##########] busy 100%  bubble   0%  F 2      B 1       1.86 "
    "GiB\x1b[K\n"
    "stage 2  [----------] busy   0%  bubble 100%  F 1      B 1        488 "
    "KiB\x1b[K\n"
    "1/9  loss 2.5000  1.5k tokens/s  ETA 0:08  bubble 25%  1.0 GFLOP/s  lr "
    "0.00e+00\x1b[K";

static void test_live(void **state)
{
    static struct screen screen;
    const char *text;

    (void)state;
    open_screen(&screen, true);
    assert_null(strchr(look(&screen), '\x1b'));
    show_step(&screen, 1);
    text = look(&screen);
    assert_memory_equal(text, "\x1b[?25l\r", 7);
    assert_string_equal(text + 7, rows_1);
    show_step(&screen, 2);
    text = look(&screen);
    assert_memory_equal(text, "\r\x1b[3Astage 0  [#####-----] busy  50%", 36);
    assert_non_null(strstr(text, "F 4      B 2 "));
    assert_null(strstr(text, "\x1b[?25"));

    /* Other lines take its place, and it comes back below. */
    progress_notice(&screen.progress, "hello");
    assert_string_equal(look(&screen), "\x1b[3A\r\x1b[J\x1b[?25hhello\n");
    show_step(&screen, 3);
    assert_memory_equal(look(&screen), "\x1b[?25l\rstage 0 ", 15);
    progress_detail(&screen.progress, 1, "quiet");
    assert_string_equal(look(&screen), "");
    screen.progress.details = true;
    progress_detail(&screen.progress, 1, "loud");
    assert_string_equal(look(&screen), "\x1b[3A\r\x1b[J\x1b[?25h[1] loud\n");

    /* After the answer to a signal, nothing above it is drawn over. */
    show_step(&screen, 3);
    look(&screen);
    progress_interject("stopping\n");
    show_step(&screen, 3);
    assert_memory_equal(look(&screen), "\x1b[?25h\x1b[?25l\rstage 0 ", 21);

    /* A window without room has the line alone. */
    show_step(&screen, 4);
    look(&screen);
    screen.progress.height = 4;
    show_step(&screen, 5);
    text = look(&screen);
    assert_memory_equal(text, "\r\x1b[3A\x1b[J5/9 ", 12);
    assert_null(strstr(text, "stage"));
    screen.progress.height = 5;
    screen.progress.width = 77;
    show_step(&screen, 6);
    assert_null(strstr(look(&screen), "stage"));
    screen.progress.width = 78;
    show_step(&screen, 7);
    assert_non_null(strstr(look(&screen), "stage 2"));
    progress_break(&screen.progress);
    assert_string_equal(look(&screen), "\n\x1b[?25h");
    progress_break(&screen.progress);
    assert_string_equal(look(&screen), "");
    close_screen(&screen);
}

/* No row is wider than it says, however large the numbers. */
static void test_live_width(void **state)
{
    static struct screen screen;
    const char *text;

    (void)state;
    open_screen(&screen, true);
    look(&screen);
    show_step(&screen, 899999);
    text = look(&screen) + 7;
    for (int s = 0; s < 3; s++) {
        size_t n = strcspn(text, "\x1b");

        assert_true(n <= 77);
        text = strchr(text, '\n') + 1;
    }
    close_screen(&screen);
}

static void test_pipe(void **state)
{
    static struct screen screen;

    (void)state;
    open_screen(&screen, false);
    look(&screen);
    show_step(&screen, 1);
    assert_string_equal(look(&screen),
                        "step 1/9  loss 2.5000  1.5k tokens/s  ETA 0:08  "
                        "bubble 25%  1.0 GFLOP/s  lr 0.00e+00\n");
    screen.scale = 0x1p24f;
    show_step(&screen, 1);
    assert_non_null(strstr(
        look(&screen), "bubble 25%  scale 16777216, 7 skipped  1.0 GFLOP/s"));
    progress_detail(&screen.progress, 2, "inside");
    assert_string_equal(look(&screen), "[2] inside\n");
    progress_break(&screen.progress);
    assert_string_equal(look(&screen), "");
    close_screen(&screen);
}

/* ---- Text ---------------------------------------------------------------- */

static char *text_of(FILE *out, char **text)
{
    assert_int_equal(fclose(out), 0);
    return *text;
}

static void test_lines_break_between_words(void **state)
{
    static const struct {
        int width, indent;
        const char *text, *want;
    } cases[] = {
        { 12, 2, "one two three\nfour\n", "one two\n  three\nfour\n" },
        { 13, 2, "one two three\n", "one two three\n" },
        { 10, 6, "name  one two\n\nx\n", "name  one\n      two\n\nx\n" },
        { 8, 0, "   indented text\n", "   indented\ntext\n" },
        { 6, 2, "a 12.5 %, b\n", "a\n  12.5 %,\n  b\n" },
        { 4, 0, "toolong x\n", "toolong\nx\n" },
        { 0, 4,
          "no terminal, no end of the line, however long it may be or "
          "become\n",
          "no terminal, no end of the line, however long it may be or become\n" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char *text;
        size_t n_bytes;
        FILE *out = open_memstream(&text, &n_bytes);

        tool_print(out, cases[i].width, cases[i].indent, "%s", cases[i].text);
        assert_string_equal(text_of(out, &text), cases[i].want);
        free(text);
    }
}

static void test_tables_break_between_columns(void **state)
{
    static const char table[] = "name  stages    a b   last\n"
                                "one        1    1.5    2 %\n"
                                "three             -\n";
    static const char in_three[] = "name  stages\n"
                                   "one        1\n"
                                   "three\n"
                                   "\n"
                                   "name     a b\n"
                                   "one      1.5\n"
                                   "three      -\n"
                                   "\n"
                                   "name    last\n"
                                   "one      2 %\n"
                                   "three\n";
    static const struct {
        int width;
        const char *want;
    } cases[] = {
        { 26, table },
        { 25, "name  stages    a b\n"
              "one        1    1.5\n"
              "three             -\n"
              "\n"
              "name    last\n"
              "one      2 %\n"
              "three\n" },
        { 14, in_three },
        { 12, in_three },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char *text;
        size_t n_bytes;
        FILE *out = open_memstream(&text, &n_bytes);

        tool_table(out, cases[i].width, table);
        assert_string_equal(text_of(out, &text), cases[i].want);
        free(text);
    }
}

static void test_rates_have_a_unit_that_fits(void **state)
{
    static const struct {
        double flops;
        const char *want;
    } cases[] = {
        { 0.0, "0.0 GFLOP" },        { 12.34e9, "12.3 GFLOP" },
        { 999.94e9, "999.9 GFLOP" }, { 999.96e9, "1.0 TFLOP" },
        { 1.5e12, "1.5 TFLOP" },     { 1234e12, "1234.0 TFLOP" },
    };
    char text[32];

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        tool_flops_text(cases[i].flops, text, sizeof(text));
        assert_string_equal(text, cases[i].want);
    }
}

/* The original's spelling is taken as well; values keep theirs. */
static void test_flags_take_underscores(void **state)
{
    static const struct tool_flag flags[] = { { "--num-minibatches", "N", "" },
                                              { "--dry-run", NULL, "" } };
    char *argv[] = { "train",        "--num_minibatches=a_b", "--dry_run",
                     "--dry-run",    "--num-minibatches",     "c_d",
                     "--dry_run-now" };
    struct tool_args args = { .command = "vpipe train",
                              .argc = 7,
                              .argv = argv,
                              .flags = flags,
                              .n_flags = 2,
                              .at = 1 };
    const char *value;

    (void)state;
    assert_int_equal(args_next(&args, &value), 0);
    assert_string_equal(value, "a_b");
    assert_int_equal(args_next(&args, &value), 1);
    assert_int_equal(args_next(&args, &value), 1);
    assert_int_equal(args_next(&args, &value), 0);
    assert_string_equal(value, "c_d");
    assert_int_equal(args_next(&args, &value), ARGS_BAD);
}

/* ---- The last lines ----------------------------------------------------- */

static const char *show_end(struct screen *screen, struct vp_run_result *result)
{
    static const struct vp_stage_stats stats[3] = {
        { .forward_ns = 500000000, .wait_ns = 250000000 },
        { .forward_ns = 1000000000,
          .backward_ns = 2000000000,
          .reduce_ns = 100000000,
          .update_ns = 200000000,
          .wait_ns = 300000000,
          .receive_ns = 60000000,
          .send_ns = 30000000,
          .message_ns = 10000000,
          .bytes_sent = 1250000 },
        { .forward_ns = 1500000000, .receive_ns = 500000000 },
    };
    static struct vp_trace trace;

    result->first_loss = result->last_loss = result->eval_loss = (double)NAN;
    result->stats = stats;
    result->trace = &trace;
    result->limit = "total_steps";
    progress_end(&screen->progress, result);
    return look(screen);
}

/* A run that can go on says how, with all that --set changed. */
static void test_end_says_how_to_go_on(void **state)
{
    struct vp_run_result result = {
        .n_steps = 103, .n_trained = 103, .n_left = 2, .interrupted = true
    };
    static struct screen screen;

    (void)state;
    open_screen(&screen, false);
    look(&screen);
    assert_non_null(strstr(show_end(&screen, &result),
                           "\n\ngo on     vpipe train runs/x/config.yml "
                           "--resume runs/x\ntry next  "));
    /* What to try next names a file that is there. */
    assert_non_null(strstr(show_end(&screen, &result),
                           " vpipe train runs/x/config.yml --dry-run\n"));
    screen.progress.config = "a file.yml";
    assert_non_null(strstr(show_end(&screen, &result),
                           "vpipe train 'a file.yml' --resume runs/x\n"));
    assert_non_null(strstr(show_end(&screen, &result),
                           " vpipe train 'a file.yml' --dry-run\n"));
    result.n_left = 0;
    assert_null(strstr(show_end(&screen, &result), "resume"));
    close_screen(&screen);
}

static void test_end_counts_its_own_work(void **state)
{
    struct vp_run_result result = { .n_steps = 400,
                                    .n_trained = 400,
                                    .seconds = 2.0 };
    static struct screen screen;

    (void)state;
    open_screen(&screen, false);
    screen.progress.n_steps = 300;
    look(&screen);
    assert_non_null(
        strstr(show_end(&screen, &result), "done      400 updates in 2.0 s"));
    result.n_trained = 300;
    assert_non_null(strstr(show_end(&screen, &result),
                           "done      300 updates (400 in all) in 2.0 s"));
    result.n_trained = 0;
    result.seconds = 0.0;
    assert_non_null(strstr(show_end(&screen, &result),
                           "done      nothing: 400 updates are trained "
                           "already, and total_steps ends the run at 300; "
                           "raise it to go on\n"));
    close_screen(&screen);
}

/* Rows make 100 %: of each rank; of stages that share one, together. */
static void test_end_table_adds_up(void **state)
{
    struct vp_run_result result = { .n_trained = 1, .seconds = 2.0 };
    static struct screen screen;

    (void)state;
    open_screen(&screen, false);
    look(&screen);
    assert_non_null(strstr(
        show_end(&screen, &result),
        "\nstage forward backward  reduce  update    wait receive    send   "
        "other      sent\n"
        "    0  25.0 %    0.0 %   0.0 %   0.0 %  12.5 %   0.0 %   0.0 %  "
        "62.5 %    0.0 MB\n"
        "    1  25.0 %   50.0 %   2.5 %   5.0 %   7.5 %   1.5 %   1.0 %   "
        "7.5 %    1.2 MB\n"
        "    2  75.0 %    0.0 %   0.0 %   0.0 %   0.0 %  25.0 %   0.0 %   "
        "0.0 %    0.0 MB\n"));
    screen.progress.stages[2].first_rank = 0;
    assert_non_null(
        strstr(show_end(&screen, &result), "   0.0 %       -    0.0 MB\n"));
    close_screen(&screen);
}

/* ------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/vp_run_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return remove_tree(root);
}

/* ---- Disk space --------------------------------------------------------- */

/* Folders can be made in a folder, however deep, and not in a file. */
static void test_a_place_for_a_folder(void **state)
{
    char deep[512];
    struct vp_err err = { .text = "" };

    (void)state;
    snprintf(deep, sizeof(deep), "%s/not/yet/there", folder_of("place"));
    assert_int_equal(vp_folder_check_place(deep, &err), VP_OK);
    assert_int_equal(vp_folder_check_place("not-yet/there", &err), VP_OK);
    assert_int_equal(vp_folder_check_place("/dev/null/x", &err),
                     VP_ERR_INVALID);
    assert_string_equal(err.text,
                        "/dev/null is a file, not a folder; choose another "
                        "--output or log_directory");
}

/* A folder for a run is new, empty or was begun by a run. */
static void test_a_folder_with_other_files(void **state)
{
    static const struct {
        const char *name; /* of a file that is put into the folder */
        bool good;        /* with those before it */
    } cases[] = {
        { ".gitignore", true },
        { "notes.txt", false },
        { "config.yml", false },
        { "command_history.log", true },
    };
    char folder[256], file[512];
    struct vp_err err = { .text = "" };

    (void)state;
    snprintf(folder, sizeof(folder), "%s", folder_of("others"));
    assert_int_equal(vp_folder_check(folder, &err), VP_OK);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(vp_folder_check(folder, &err), VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        snprintf(file, sizeof(file), "%s/%s", folder, cases[i].name);
        assert_int_equal(vp_folder_write_text(file, "text", &err), VP_OK);
        assert_int_equal(vp_folder_check(folder, &err),
                         cases[i].good ? VP_OK : VP_ERR_INVALID);
        if (!cases[i].good)
            assert_non_null(
                strstr(err.text, i == 1 ? "('notes.txt')" : "('config.yml')"));
    }
}

static void test_disk_space(void **state)
{
    static const struct {
        struct vp_disk_space disk;
        int64_t need;
        const char *text; /* NULL: it fits */
    } cases[] = {
        /* While the fourth is written, three are there. */
        { { 10, 100, 0, 3, false, 40, "" }, 4, NULL },
        { { 10, 100, 0, 3, false, 39, "" },
          4,
          "dir: not enough space: 4 checkpoints of 10 bytes must fit, 39 "
          "bytes are free; set keep_checkpoints: 2, free 1 bytes, or choose "
          "another --output or log_directory" },
        { { 10, 100, 0, 3, false, 20, "" },
          4,
          "set keep_checkpoints: 1, free 20" },
        { { 10, 100, 0, 3, false, 19, "" },
          4,
          "dir: not enough space: 4 checkpoints of 10 bytes must fit, 19 "
          "bytes are free; free 21 bytes, or choose another --output or "
          "log_directory" },
        { { 10, 100, 0, 1, false, 15, "" },
          2,
          "15 bytes are free; free 5 bytes" },
        /* The best one comes on top. */
        { { 10, 100, 0, 3, true, 40, "" }, 5, "set keep_checkpoints: 2, " },
        /* A run that saves once, or not at all. */
        { { 10, 1, 0, 3, false, 10, "" }, 1, NULL },
        { { 10, 1, 0, 3, false, 9, "" }, 1, "space: 1 checkpoint of 10 bytes" },
        { { 10, 0, 2, 3, false, 0, "" }, 0, NULL },
        /* Those that are there have their space; one more must have it. */
        { { 10, 100, 2, 3, false, 20, "" }, 2, NULL },
        { { 10, 100, 3, 3, false, 10, "" }, 1, NULL },
        { { 10, 100, 9, 3, false, 9, "" }, 1, "1 more checkpoint of" },
        /* What was set aside takes space until the first new one is there. */
        { { 10, 100, 1, 3, false, 9, "step-75.aside-1" },
          3,
          "3 more checkpoints of 10 bytes must fit, 9 bytes are free; remove "
          "checkpoints/step-75.aside-1, free 21 bytes, or" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_err err = { .text = "" };
        enum vp_status st = vp_disk_space_judge(&cases[i].disk, "dir", &err);

        assert_int_equal(vp_disk_space_need(&cases[i].disk), cases[i].need);
        assert_int_equal(st, cases[i].text ? VP_ERR_INVALID : VP_OK);
        if (cases[i].text && !strstr(err.text, cases[i].text))
            fail_msg("case %d: %s", (int)i, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_lines),
        cmocka_unit_test(test_log_times),
        cmocka_unit_test(test_log_iterations),
        cmocka_unit_test(test_log_scale),
        cmocka_unit_test(test_metrics_are_rates),
        cmocka_unit_test(test_metrics_of_a_scale),
        cmocka_unit_test(test_log_means),
        cmocka_unit_test(test_log_groups),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_folder_of_run),
        cmocka_unit_test(test_plan_with_sets),
        cmocka_unit_test(test_plan_given_back),
        cmocka_unit_test(test_checkpoints_of_epochs),
        cmocka_unit_test(test_versions_asp),
        cmocka_unit_test(test_versions_bsp),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_capped_data),
        cmocka_unit_test(test_text_notices),
        cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_no_labels),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_live_width),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_ranks_have_user_numbers),
        cmocka_unit_test(test_table_has_user_numbers),
        cmocka_unit_test(test_table_cuts_long_lists),
        cmocka_unit_test(test_a_place_for_a_folder),
        cmocka_unit_test(test_a_folder_with_other_files),
        cmocka_unit_test(test_disk_space),
        cmocka_unit_test(test_lines_break_between_words),
        cmocka_unit_test(test_tables_break_between_columns),
        cmocka_unit_test(test_rates_have_a_unit_that_fits),
        cmocka_unit_test(test_flags_take_underscores),
        cmocka_unit_test(test_end_says_how_to_go_on),
        cmocka_unit_test(test_end_counts_its_own_work),
        cmocka_unit_test(test_end_table_adds_up),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
