/* The log has the lines of the original vPipe, word by word, and metrics.jsonl
 * has rates and means. */
#include "lib/runlib.h"
#include "run/folder.h"
#include "run/log.h"

#include <math.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Lines of the original ---------------------------------------------- */

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

/* Epochs have 12 steps. With print_frequency 2 the first 10 steps are warm-up.
 * Step s takes s seconds. */
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

    assert_file(path_in_run_root("lines", "output.log.0"),
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
    assert_file(path_in_run_root("lines", "output.log.3"),
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
    text = read_run_text(path_in_run_root("lines", "output.log.2"));
    assert_non_null(strstr(text, "[Rank 2] Stage: 1, Rank in stage: 1\n"
                                 "Replicating stage: ranks=2, "
                                 "module_size=100.000\nTraining...\n"));
    assert_non_null(strstr(text, "Stage: [1] Epoch: [0][10/12]\tMemory: 2.000 "
                                 "(2.000)\nEpoch 0, Iteration 10, Loss: "
                                 "-1.0000\nhello\n"));
    assert_null(strstr(text, "Saved"));
    free(text);
}

/* The two steps after the warm-up of an epoch of 12 take 11.5 s on average; the
 * second epoch has its own average. */
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
    text = read_run_text(path_in_run_root("times", "output.log.3"));
    /* 11 + 12 = 23 s are 0.006 hours; a whole epoch of 11.5 x 12 = 138 s is
     * 0.038 hours. */
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
    text = read_run_text(path_in_run_root("times", "output.log.0"));
    assert_int_equal(count_lines(text, number), 2);
    assert_int_equal(count_lines(text, "^Stage: \\[0\\] Epoch: \\[1\\]"), 6);
    free(text);
}

/* Checks the lines of a log that have the loss of an iteration. */
static void assert_losses(const char *path, const char *want)
{
    char *text = read_run_text(path), *save = NULL;
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

/* The losses of the first and the last step of an epoch or run are always
 * logged. A step without labels has no loss. */
static void test_log_iterations(void **state)
{
    static const struct {
        int accumulation;
        int64_t every, last, n_steps;
        const char *want;
    } cases[] = {
        /* Epochs of 12 steps, shorter than print_frequency. */
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
        /* Groups of 4 minibatches, logged every 20 of 48 minibatches. */
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
        assert_losses(path_in_run_root(name, "output.log.0"), cases[i].want);
        assert_losses(path_in_run_root(name, "output.log.3"), cases[i].want);
    }
    make_fake(&fake, 1, 2);
    open_log(&log, &fake, "unlabelled");
    assert_int_equal(vp_log_step(&log, &none, &err), VP_OK);
    vp_log_close(&log);
    assert_losses(path_in_run_root("unlabelled", "output.log.0"),
                  "Epoch 0, Iteration 0, Loss: -\n");
    fake.summary.forward_only = true;
    open_log(&log, &fake, "untrained");
    vp_log_close(&log);
    assert_file(path_in_run_root("untrained", "output.log.0"),
                "Finished initializing process group; backend: gloo, rank: 0, "
                "world_size: 4\n"
                "[Rank 0] Stage: 0, Rank in stage: 0\n");
}

/* The loss scale is printed at the end of the line. */
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
    text = read_run_text(path_in_run_root("scale", "output.log.3"));
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

/* A skipped update has no norm: JSON has null instead of infinity. */
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

/* Several lines in an epoch have the mean of the times so far. A run resumed
 * within an epoch has the mean of its own steps. */
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
    text = read_run_text(path_in_run_root("means", "output.log.3"));
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

/* In sync_mode bsp a step is a group of 4 minibatches: print_frequency 10
 * becomes 8. */
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
    text = read_run_text(path_in_run_root("groups", "output.log.0"));
    for (int at = 8; at <= 48; at += 8) {
        char line[64];

        snprintf(line, sizeof(line), "Epoch: [0][%d/48]\t", at);
        assert_non_null(strstr(text, line));
    }
    assert_int_equal(count_lines(text, "^Stage: "), 6);
    free(text);
    text = read_run_text(path_in_run_root("groups", "output.log.3"));
    /* Steps 11 and 12 are timed: 23 s for 8 minibatches. */
    assert_int_equal(count_lines(text, "^Stage: "), 1);
    assert_non_null(strstr(text, "[0][48/48]\tTime: 2.875 (2.875)\t"));
    free(text);
    make_fake(&fake, 4, 2);
    open_log(&log, &fake, "groups2");
    assert_int_equal(log.every, 4);
    vp_log_close(&log);
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
    };

    return cmocka_run_group_tests(tests, make_run_root, remove_run_root);
}
