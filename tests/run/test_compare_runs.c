/* A comparison trains two configurations in turn, can be stopped, and can read
 * finished runs from their folders. */
#include "ckpt/io.h"
#include "config/load.h"
#include "lib/comparelib.h"
#include "run/compare.h"

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

static void close_to(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * (1.0 + fabs(want))))
        fail_msg("%.12g is not %.12g", got, want);
}

static double loss_of_last;

static void keep_end(void *ctx, const struct vp_run_result *result)
{
    (void)ctx;
    loss_of_last = result->last_loss;
}

/* Returns the last loss of a plain training run. */
static double plain_loss(const struct vp_config *config, const char *folder,
                         int64_t n_steps)
{
    struct vp_run_options options = { .output = folder, .max_steps = n_steps };
    struct vp_run_events events = { .on_end = keep_end };
    struct vp_err err = { .text = "" };

    if (vp_run_train(config, &options, &events, &err) != VP_OK)
        fail_msg("%s", err.text);
    return loss_of_last;
}

static int n_runs, n_alone;

static void count_run(void *ctx, const char *name, int round, int64_t n_steps)
{
    (void)ctx;
    (void)name;
    assert_true(n_steps > 0);
    n_runs += round > 0;
    n_alone += round == 0;
}

static void remove_folder(const char *folder)
{
    assert_int_equal(vp_io_remove(folder), 0);
}

static void two_configurations_run_in_turn(void **state)
{
    static const char *const kinds[] = {
        "replicas: [2]\naccumulation_steps: 2\n",
        "sync_mode: asp\npartition: [3, 3]\nrecompute_ratio: [0.5, 0]\n",
    };
    char root[] = "/tmp/vpipe-compare-XXXXXX", path[256];
    struct vp_config configs[2];
    struct vp_contestant c[2] = { { .name = "a" }, { .name = "b" } };
    struct vp_compare_options options = { .max_steps = 10, .n_rounds = 2 };
    struct vp_compare_events events = { .on_run = count_run,
                                        .on_notice = keep_notice };
    struct vp_err err = { .text = "" };

    (void)state;
    assert_non_null(mkdtemp(root));
    options.output = root;
    notices[0] = 0;
    for (int i = 0; i < 2; i++) {
        load_small(&configs[i], "a.yml", kinds[i]);
        configs[i].total_steps = 30;
    }
    if (vp_compare_run(configs, 2, &options, &events, c, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_string_equal(notices, "");
    assert_int_equal(n_runs, 4);
    assert_int_equal(n_alone, 2);
    assert_int_equal(c[0].n_steps, 10);
    assert_int_equal(c[1].n_steps, 20); /* the same number of samples */
    assert_int_equal(c[0].n_ranks, 2);
    assert_int_equal(c[1].n_stages, 2);
    assert_int_equal(c[0].stage_ranks[0], 2);
    for (int i = 0; i < 2; i++) {
        const struct vp_compare_round *m = &c[i].median;

        assert_true(c[i].least > 0.0 && c[i].least <= c[i].most);
        assert_true(m->samples_per_second >= c[i].least &&
                    m->samples_per_second <= c[i].most);
        assert_true(m->tokens_per_second > 10 * m->samples_per_second);
        assert_true(fabs(m->step_seconds * m->samples_per_second -
                         (double)(c[i].batch * c[i].group)) <
                    0.5 * (double)(c[i].batch * c[i].group));
        assert_true(m->waiting >= 0.0 && m->waiting <= m->bubble + 0.05);
        assert_true(m->bubble >= 0.0 && m->bubble < 1.0);
        assert_true(c[i].simulated > 0.0);
        assert_true(vp_compare_peak(&c[i]) > 0);
        snprintf(path, sizeof(path), "%s/plain%d", root, i);
        close_to(m->loss, plain_loss(&configs[i], path, c[i].n_steps));
        snprintf(path, sizeof(path), "%s/%s.2/metrics.jsonl", root, c[i].name);
        assert_int_equal(access(path, F_OK), 0);
        vp_config_release(&configs[i]);
    }
    remove_folder(root);
}

/* Schedules that split backward are simulated with separate times of B and
 * W. */
static void weight_gradients_are_timed_apart(void **state)
{
    static const char *const kinds[] = {
        "partition: [3, 3]\nschedule: zb-h1\naccumulation_steps: 4\n",
        "stages: 2\nschedule: auto\naccumulation_steps: 4\n",
    };
    char root[] = "/tmp/vpipe-compare-XXXXXX", path[256];
    struct vp_config configs[2];
    struct vp_contestant c[2] = { { .name = "a" }, { .name = "b" } };
    struct vp_compare_options options = { .max_steps = 3, .n_rounds = 1 };
    struct vp_compare_events events = { .on_notice = keep_notice };
    struct vp_err err = { .text = "" };

    (void)state;
    assert_non_null(mkdtemp(root));
    options.output = root;
    for (int i = 0; i < 2; i++)
        load_small(&configs[i], "a.yml", kinds[i]);
    if (vp_compare_run(configs, 2, &options, &events, c, &err) != VP_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        struct vp_trace trace;
        int n_w = 0;

        assert_true(c[i].simulated > 0.0);
        snprintf(path, sizeof(path), "%s/%s.alone/trace.json", root, c[i].name);
        assert_int_equal(vp_trace_read_chrome(path, &trace, &err), VP_OK);
        for (int r = 0; r < trace.n_ranks; r++)
            for (int k = 0; k < trace.ranks[r].n_events; k++)
                n_w += trace.ranks[r].events[k].kind == VP_ACTION_W;
        assert_true(n_w >= 2 * trace.n_stages);
        vp_trace_release(&trace);
        vp_config_release(&configs[i]);
    }
    remove_folder(root);
}

/* A stop request ends the comparison. A notice names different numbers of
 * samples. */
static void runs_can_be_stopped(void **state)
{
    static volatile sig_atomic_t stop = 1;
    char root[] = "/tmp/vpipe-compare-XXXXXX";
    struct vp_config configs[2];
    struct vp_contestant c[2] = { { .name = "a" }, { .name = "b" } };
    struct vp_compare_options options = { .n_rounds = 1, .stop = &stop };
    struct vp_compare_events events = { .on_notice = keep_notice };
    struct vp_err err = { .text = "" };

    (void)state;
    assert_non_null(mkdtemp(root));
    options.output = root;
    notices[0] = 0;
    load_small(&configs[0], "a.yml", "");
    load_small(&configs[1], "b.yml", "accumulation_steps: 2\n");
    assert_int_equal(vp_compare_run(configs, 2, &options, &events, c, &err),
                     VP_ERR_INTERRUPTED);
    assert_string_equal(notices, "a trains on 48 samples, b on 96\n");
    for (int i = 0; i < 2; i++)
        vp_config_release(&configs[i]);
    remove_folder(root);
}

/* The first of ten steps is warm-up: it counts only for the bubble. The loss is
 * that of the last step. */
static void runs_are_read_from_folders(void **state)
{
    char root[] = "/tmp/vpipe-compare-XXXXXX", path[256];
    struct vp_contestant c[] = { { .name = "a" }, { .name = "b" } };
    struct vp_config config;
    struct vp_err err = { .text = "" };
    char *text;
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(root));
    load_small(&config, "a.yml", "");
    assert_int_equal(vp_compare_read(root, &config, &c[0], &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "the run has made no step"));
    snprintf(path, sizeof(path), "%s/metrics.jsonl", root);
    f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 1; i <= 10; i++)
        fprintf(f,
                "{\"step\": %d, \"loss\": %d, \"samples_per_second\": %d, "
                "\"tokens_per_second\": %d, \"seconds\": %g, \"bubble\": %g, "
                "\"memory\": [1048576, 2097152]}\n",
                i, 20 - i, i == 10 ? 200 : 100, i == 10 ? 3000 : 1000,
                i == 1    ? 7.0
                : i == 10 ? 1.0
                          : 0.25,
                i == 10 ? 0.25 : 0.5);
    fclose(f);
    assert_int_equal(vp_compare_read(root, &config, &c[0], &err), VP_OK);
    close_to(c[0].median.samples_per_second, 400.0 / 3.0);
    close_to(c[0].median.tokens_per_second, 5000.0 / 3.0);
    close_to(c[0].median.step_seconds, 1.0 / 3.0);
    close_to(c[0].median.bubble, 0.475);
    close_to(c[0].median.loss, 10.0);
    assert_true(isnan(c[0].median.waiting) && isnan(c[0].simulated));
    assert_int_equal(c[0].n_steps, 10);
    assert_int_equal(vp_compare_peak(&c[0]), 2097152);
    c[1] = c[0];
    c[1].name = "b";
    assert_int_equal(vp_compare_table(c, 2, &text), VP_OK);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "agree"));
    free(text);
    assert_int_equal(vp_compare_svg(c, 2, &text), VP_OK);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "simulated"));
    free(text);
    vp_config_release(&config);
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_configurations_run_in_turn),
        cmocka_unit_test(weight_gradients_are_timed_apart),
        cmocka_unit_test(runs_can_be_stopped),
        cmocka_unit_test(runs_are_read_from_folders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
