/* A comparison has the right medians, table, picture and simulated times, refuses
 * configurations that cannot be compared, and finds the largest batch. */
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

/* ---- Arithmetic --------------------------------------------------------- */

static void rounds_become_medians(void **state)
{
    static const struct vp_compare_round rounds[] = {
        { 10, 100, 5.0, 0.1, 0.30, 2.0 },
        { 30, 400, 1.0, 0.3, 0.20, 2.0 },
        { 20, 200, 4.0, 0.2, 0.10, 2.0 },
        { 16, 150, 2.0, 0.6, 0.40, 2.0 },
    };
    struct vp_contestant c = { .name = "a" };

    (void)state;
    vp_compare_sum_up(rounds, 3, &c);
    close_to(c.median.samples_per_second, 20);
    close_to(c.median.tokens_per_second, 200);
    close_to(c.median.step_seconds, 4.0);
    close_to(c.median.waiting, 0.2);
    close_to(c.median.bubble, 0.2);
    close_to(c.median.loss, 2.0);
    close_to(c.least, 10);
    close_to(c.most, 30);
    vp_compare_sum_up(rounds, 4, &c);
    close_to(c.median.samples_per_second, 18);
    close_to(c.median.tokens_per_second, 175);
    close_to(c.median.step_seconds, 3.0);
    close_to(c.median.waiting, 0.25);
    close_to(c.median.bubble, 0.25);
    vp_compare_sum_up(rounds, 1, &c);
    close_to(c.median.samples_per_second, 10);
    close_to(c.least, 10);
    close_to(c.most, 10);
}

static void orders_are_stable(void **state)
{
    static const double values[] = { 3, 5, 5, 1, 9, 3 };
    static const int want[] = { 4, 1, 2, 0, 5, 3 };
    int order[6];

    (void)state;
    vp_compare_order(values, 6, order);
    assert_memory_equal(order, want, sizeof(want));
    vp_compare_order(values, 1, order);
    assert_int_equal(order[0], 0);
}

/* ---- The table ---------------------------------------------------------- */

static void fill(struct vp_contestant out[3])
{
    static const struct vp_contestant all[3] = {
        { .name = "one",
          .n_stages = 1,
          .n_ranks = 2,
          .batch = 8,
          .group = 2,
          .stage_bytes = { 2048 },
          .stage_ranks = { 2 },
          .median = { 56.7, 3629, 0.28219, 0, 0.085, 4.8525 },
          .least = 55,
          .most = 58,
          .simulated = 83.3 },
        { .name = "two_stages",
          .n_stages = 2,
          .n_ranks = 2,
          .batch = 16,
          .group = 1,
          .stage_bytes = { 1536, 3 << 20 },
          .stage_ranks = { 1, 1 },
          .median = { 63.2, 4044, 0.12661, 0.112, 0.125, 4.861 },
          .least = 57,
          .most = 70,
          .simulated = 116.7,
          .bubble_simulated = 0.115 },
        { .name = "slow",
          .n_stages = 1,
          .n_ranks = 1,
          .batch = 8,
          .group = 1,
          .stage_bytes = { 4096 },
          .stage_ranks = { 1 },
          .median = { 20, 1280, 0.4, 0, 0, 4.9 },
          .least = 20,
          .most = 20,
          .simulated = 21 },
    };

    memcpy(out, all, sizeof(all));
}

static const char table[] =
    "                               mb per               samples/s          "
    "    ms per    comm.  bubble  simulated  bubble    largest     last\n"
    "name        stages ranks batch   step    median (least..most)  tokens/s"
    "      step        %       %  samples/s       %      stage     loss\n"
    "one              1     2     8      2       56.7 (55.0..58.0)      3629"
    "    282.19      0.0     8.5       83.3     0.0      2 KiB   4.8525\n"
    "two_stages       2     2    16      1       63.2 (57.0..70.0)      4044"
    "    126.61     11.2    12.5      116.7    11.5      3 MiB   4.8610\n"
    "slow             1     1     8      1       20.0 (20.0..20.0)      1280"
    "    400.00      0.0     0.0       21.0     0.0      4 KiB   4.9000\n"
    "\nmemory of a rank, stage by stage\n"
    "one         2 KiB\n"
    "two_stages  1.5 KiB, 3 MiB\n"
    "slow        4 KiB\n"
    "\nthroughput in order\n";

static void check_table(const struct vp_contestant *c, const char *end)
{
    char *text = NULL;

    assert_int_equal(vp_compare_table(c, 3, &text), VP_OK);
    assert_memory_equal(text, table, sizeof(table) - 1);
    assert_string_equal(text + sizeof(table) - 1, end);
    free(text);
}

static void the_table_is_as_expected(void **state)
{
    struct vp_contestant c[3];

    (void)state;
    fill(c);
    check_table(c, "simulated two_stages > one > slow\n"
                   "measured  two_stages > one > slow\n"
                   "the orders agree\n");
}

static const char *verdict(const struct vp_contestant *c)
{
    static char end[512];
    char *text = NULL;

    assert_int_equal(vp_compare_table(c, 3, &text), VP_OK);
    snprintf(end, sizeof(end), "%s", strstr(text, "simulated two"));
    free(text);
    return end;
}

static void orders_that_differ_are_told(void **state)
{
    struct vp_contestant c[3];

    (void)state;
    fill(c);
    c[0].simulated = 20;
    assert_string_equal(verdict(c),
                        "simulated two_stages > slow > one\n"
                        "measured  two_stages > one > slow\n"
                        "  one and slow: simulated the other way round\n"
                        "the orders do not agree\n");
    c[2].most = 55;
    assert_string_equal(verdict(c),
                        "simulated two_stages > slow > one\n"
                        "measured  two_stages > one > slow\n"
                        "  one and slow: simulated the other way round, but "
                        "their rounds overlap\n"
                        "the orders agree wherever the measurement decides\n");
    c[2].simulated = 20;
    assert_non_null(strstr(verdict(c), "\nthe orders agree\n"));
}

/* ---- The picture -------------------------------------------------------- */

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

static void the_picture_has_a_bar_for_everything(void **state)
{
    struct vp_contestant c[3];
    char *text = NULL;

    (void)state;
    fill(c);
    c[2].name = "a<b&c";
    assert_int_equal(vp_compare_svg(c, 3, &text), VP_OK);
    assert_int_equal(count(text, "<svg"), 1);
    assert_string_equal(text + strlen(text) - 7, "</svg>\n");
    assert_int_equal(count(text, "a&lt;b&amp;c"), 2);
    assert_null(strstr(text, "a<b"));
    assert_int_equal(count(text, "simulated: "), 3);
    /* The bars of stage 0: two replicas, then one each. */
    assert_int_equal(count(text, "<title>stage 0"), 4);
    assert_int_equal(count(text, "<title>stage 1: 3 MiB"), 1);
    /* The longest bar is 330 wide. */
    assert_int_equal(count(text, "width=\"178.71\""), 1); /* 63.2 / 116.7 */
    assert_int_equal(count(text, "<title>stage 1: 3 MiB</title>"), 1);
    free(text);
    memset(c, 0, sizeof(c));
    c[0].name = "nothing";
    assert_int_equal(vp_compare_svg(c, 1, &text), VP_OK);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    free(text);
}

/* ---- Costs from a timeline ---------------------------------------------- */

static void costs_are_lower_quartiles(void **state)
{
    /* Milliseconds of each forward, plus 1 ms of waiting. Minibatch 0 does not
     * count. */
    static const int forward[] = { 1, 900, 5, 3, 9, 4, 7, 8 };
    struct vp_trace_event events[32];
    struct vp_trace_rank rank = { .events = events };
    struct vp_trace trace = { .n_ranks = 1, .n_stages = 2, .ranks = &rank };
    struct vp_stage_costs costs[2];
    struct vp_err err;

    (void)state;
    memset(events, 0, sizeof(events));
    for (int m = 0; m < 8; m++) {
        struct vp_trace_event *e = &events[rank.n_events];

        e[0] = (struct vp_trace_event){ .end_ns = (forward[m] + 1) * 1000000LL,
                                        .wait_ns = 1000000,
                                        .mb = m,
                                        .kind = VP_ACTION_F };
        e[1] = e[0];
        e[1].kind = VP_ACTION_B;
        e[1].end_ns = 11000000;
        e[2] = e[1];
        e[2].kind = VP_ACTION_UPDATE;
        e[2].end_ns = 3000000;
        e[3] = e[0]; /* an evaluation does not count */
        e[3].eval = true;
        e[3].end_ns = 1000001;
        rank.n_events += 4;
    }
    events[4 * 7 + 2].stage = 1;
    assert_int_equal(vp_compare_costs(&trace, costs, &err), VP_OK);
    close_to(costs[0].f, 0.004); /* the lower quartile of 3 4 5 7 8 9 900 */
    close_to(costs[0].b, 0.005);
    close_to(costs[0].w, 0.005);
    close_to(costs[0].r, 0.0);
    close_to(costs[0].update, 0.002);
    close_to(costs[1].f, 0.0);
    close_to(costs[1].update, 0.002);
}

/* ---- Configurations that may be compared -------------------------------- */

/* Loads `small_text` with one key added or changed by `set`. */
static void load_with(struct vp_config *out, const char *set)
{
    struct vp_err err = { .text = "" };

    if (vp_config_parse("b.yml", small_text, strlen(small_text), &set, 1, out,
                        &err) != VP_OK)
        fail_msg("%s: %s", set, err.text);
}

static enum vp_status check_with(const char *set, struct vp_err *err)
{
    struct vp_config configs[3];
    enum vp_status st;

    notices[0] = 0;
    err->text[0] = 0;
    load_small(&configs[0], "a.yml", "");
    load_small(&configs[1], "a2.yml", "");
    load_with(&configs[2], set);
    st = vp_compare_check(configs, 3, keep_notice, NULL, err);
    for (int i = 0; i < 3; i++)
        vp_config_release(&configs[i]);
    return st;
}

static void other_problems_are_refused(void **state)
{
    static const char *const sets[] = {
        "vocab=65",      "hidden=64",           "layers=3",       "heads=4",
        "ffn=64",        "positions=17",        "seq_length=15",  "seed=4",
        "data_dir=/usr", "tie_embeddings=true", "model_type=cpm",
    };
    struct vp_err err;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(sets); i++) {
        char key[32];

        snprintf(key, sizeof(key), "%.*s is ", (int)strcspn(sets[i], "="),
                 sets[i]);
        if (check_with(sets[i], &err) != VP_ERR_INVALID)
            fail_msg("%s is not refused", sets[i]);
        if (!strstr(err.text, key) || !strstr(err.text, "; "))
            fail_msg("%s: '%s'", sets[i], err.text);
        assert_string_equal(notices, "");
    }
    check_with("hidden=64", &err);
    assert_string_equal(err.text,
                        "--set: hidden is 64, but 32 in a.yml:3; compare "
                        "configurations with the same model and data");
    assert_int_equal(check_with("forward_only=true", &err), VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "forward_only"));
}

static void what_one_compares_is_allowed(void **state)
{
    static const struct {
        const char *set, *notice;
    } cases[] = {
        { "batch_size=8", "batch_size is 4 in a.yml:8 and 8 in --set\n" },
        { "dropout=0.5", "dropout is 0 in a.yml:9 and 0.5 in --set\n"
                         "attention_dropout is 0 in a.yml and 0.5 in b.yml\n" },
        { "threads_per_stage=2",
          "threads_per_stage is 1 in a.yml:12 and 2 in --set\n" },
        { "partition=[2,4]", "" },
        { "accumulation_steps=4", "" },
        { "recompute_ratio=0.5", "" },
        { "total_steps=13", "" },
        { "replicas=[2]", "" },
        { "log_directory=/y", "" },
    };
    struct vp_err err;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        if (check_with(cases[i].set, &err) != VP_OK)
            fail_msg("%s: %s", cases[i].set, err.text);
        assert_string_equal(notices, cases[i].notice);
    }
}

/* tie_embeddings must be equal in all configurations. Where it is not given,
 * its default depends on sync_mode, so it is set to false in all of them. */
static void embeddings_are_untied_in_all(void **state)
{
    static const char model[] = "model_type: gpt2\nlayers: 2\nhidden: 32\n"
                                "heads: 2\nstages: 2\n";
    static const struct {
        const char *more[3];
        bool ok, tied;
        const char *notice;
    } cases[] = {
        { { "", "sync_mode: asp\n", "" },
          true,
          false,
          "tie_embeddings is set to false in all of them, as in b.yml: stages "
          "cannot share weights in sync_mode asp\n" },
        { { "", "", "tie_embeddings: false\n" },
          true,
          false,
          "tie_embeddings is set to false in all of them, as in c.yml:6\n" },
        { { "sync_mode: asp\n", "", "tie_embeddings: false\n" },
          true,
          false,
          "tie_embeddings is set to false in all of them, as in a.yml: stages "
          "cannot share weights in sync_mode asp\n" },
        { { "", "", "" }, true, true, "" },
        { { "", "tie_embeddings: true\n", "" }, true, true, "" },
        { { "sync_mode: asp\n", "sync_mode: asp\n", "sync_mode: asp\n" },
          true,
          false,
          "" },
        /* A value that the user gave is not changed. */
        { { "", "tie_embeddings: true\n", "sync_mode: asp\n" },
          false,
          true,
          "" },
        { { "tie_embeddings: true\n", "", "tie_embeddings: false\n" },
          false,
          true,
          "" },
    };
    static const char *const names[] = { "a.yml", "b.yml", "c.yml" };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_config configs[3];
        struct vp_err err = { .text = "" };
        enum vp_status st;

        for (int j = 0; j < 3; j++) {
            char text[256];

            snprintf(text, sizeof(text), "%s%s", model, cases[i].more[j]);
            if (vp_config_parse(names[j], text, strlen(text), NULL, 0,
                                &configs[j], &err) != VP_OK)
                fail_msg("%s", err.text);
        }
        notices[0] = 0;
        st = vp_compare_check(configs, 3, keep_notice, NULL, &err);
        assert_int_equal(st, cases[i].ok ? VP_OK : VP_ERR_INVALID);
        if (!cases[i].ok)
            assert_non_null(strstr(err.text, "tie_embeddings is "));
        assert_string_equal(notices, cases[i].notice);
        for (int j = 0; j < 3; j++) {
            if (cases[i].ok)
                assert_int_equal(configs[j].sizes.tie_embeddings,
                                 cases[i].tied);
            vp_config_release(&configs[j]);
        }
    }
}

/* Two names of the same folder are equal. */
static void data_folders_are_compared_as_such(void **state)
{
    static const char *const names[] = { "data_dir: /usr/lib\n",
                                         "data_dir: /usr/../usr/./lib\n" };
    struct vp_config configs[2];
    struct vp_err err = { .text = "" };

    (void)state;
    for (int i = 0; i < 2; i++)
        load_small(&configs[i], "a.yml", names[i]);
    assert_int_equal(vp_compare_check(configs, 2, NULL, NULL, &err), VP_OK);
    for (int i = 0; i < 2; i++)
        vp_config_release(&configs[i]);
}

/* ---- Simulation --------------------------------------------------------- */

static struct vp_shared_time simulate(const char *more, int n_mb, double cores)
{
    static const struct vp_stage_costs costs[] = {
        { .f = 1, .b = 1, .w = 1, .r = 1, .update = 0.5 },
        { .f = 1, .b = 1, .w = 1, .r = 1, .update = 0.5 },
    };
    struct vp_shared_time out;
    struct vp_config config;
    struct vp_err err = { .text = "" };

    load_small(&config, "a.yml", more);
    if (vp_compare_simulate(&config, costs, n_mb, cores, &out, &err) != VP_OK)
        fail_msg("%s", err.text);
    vp_config_release(&config);
    return out;
}

/* A plan's sets of recomputed operators take as long as a ratio. */
static void sets_take_their_time(void **state)
{
    static char path[] = "/tmp/vpipe_compare_XXXXXX";
    static const char plan[] = "{\"partition\": [3, 3], \"schedule\": "
                               "\"gpipe\", \"accumulation_steps\": 4, "
                               "\"recompute\": [[0], [], [], [], [], [1]]}";
    char yaml[256];
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, plan, strlen(plan)), strlen(plan));
    close(fd);
    snprintf(yaml, sizeof(yaml), "partition: %s\n", path);
    close_to(simulate(yaml, 4, 2).seconds, 4 * 4 + 3 + 0.5);
    unlink(path);
}

static void methods_take_their_time(void **state)
{
    static const char model_parallel[] = "partition: [3, 3]\n"
                                         "accumulation_steps: 1\n";
    static const char gpipe[] = "partition: [3, 3]\nschedule: gpipe\n"
                                "accumulation_steps: 4\n";
    static const char again[] = "partition: [3, 3]\nschedule: gpipe\n"
                                "accumulation_steps: 4\n"
                                "recompute_ratio: 1\n";
    static const char late[] = "partition: [3, 3]\nschedule: gpipe\n"
                               "accumulation_steps: 4\nrecompute_ratio: 1\n"
                               "early_recompute: false\n";
    static const char both[] = "replicas: [2]\naccumulation_steps: 2\n";
    static const char asp[] = "sync_mode: asp\npartition: [3, 3]\n";

    (void)state;
    /* The stages run one after the other, then both update. */
    close_to(simulate(model_parallel, 1, 2).seconds, 6.5);
    close_to(simulate(model_parallel, 1, 1).seconds, 7.0);
    /* 4 minibatches of 3 units and a bubble of 3 units; 4 units with
     * recomputation. */
    close_to(simulate(gpipe, 4, 2).seconds, 15.5);
    close_to(simulate(again, 4, 2).seconds, 4 * 4 + 3 + 0.5);
    close_to(simulate(late, 4, 2).seconds, 4 * 4 + 3 + 1 + 0.5);
    /* Each of two replicas runs one minibatch at the same time. */
    close_to(simulate(both, 2, 2).seconds, 3.5);
    close_to(simulate(both, 2, 2).bubble, 0.0);
    close_to(simulate(both, 2, 1).seconds, 7.0);
    /* An asynchronous run takes 3.5 units per minibatch in the long run. */
    assert_true(fabs(simulate(asp, 100, 2).seconds - 350) < 5);
    assert_true(simulate(asp, 100, 2).bubble < 0.02);
}

/* ---- The largest batch -------------------------------------------------- */

static bool fits(const struct vp_config *config, int64_t batch, size_t limit)
{
    struct vp_run_options options = { .dry_run = true };
    struct vp_run_events events = { 0 };
    struct vp_config copy = *config;
    struct vp_err err;

    copy.batch_size = batch;
    copy.memory_limit = limit;
    return vp_run_train(&copy, &options, &events, &err) == VP_OK;
}

static void the_largest_batch_is_the_largest(void **state)
{
    static const char *const kinds[] = {
        "",
        "partition: [3, 3]\nsync_mode: asp\n",
        "partition: [3, 3]\nschedule: gpipe\nrecompute_ratio: 1\n",
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(kinds); i++)
        for (int64_t limit = 1 << 19; limit <= 1 << 24; limit *= 4) {
            struct vp_config config;
            struct vp_err err = { .text = "" };
            char missing[VP_MISSING_TEXT];
            int64_t batch = -1;

            load_small(&config, "a.yml", kinds[i]);
            if (vp_compare_largest_batch(&config, limit, &batch, missing,
                                         &err) != VP_OK)
                fail_msg("%s", err.text);
            assert_string_equal(missing, "");
            assert_true(batch == 0 || fits(&config, batch, (size_t)limit));
            assert_false(fits(&config, batch + 1, (size_t)limit));
            vp_config_release(&config);
        }
}

static void nothing_fits_into_a_byte(void **state)
{
    struct vp_config config;
    struct vp_err err = { .text = "" };
    char missing[VP_MISSING_TEXT];
    int64_t batch = -1;

    (void)state;
    load_small(&config, "a.yml", "");
    assert_int_equal(
        vp_compare_largest_batch(&config, 1, &batch, missing, &err), VP_OK);
    assert_int_equal(batch, 0);
    vp_config_release(&config);
}

/* The first batch is for 64 TiB of memory and data that does not exist here; the
 * second one has a precision that only GPUs support. */
static void batches_are_found_for_other_machines(void **state)
{
    static const struct {
        const char *yaml, *missing;
        int64_t limit;
    } cases[] = {
        { "model_type: bert\nhidden: 4096\nheads: 32\ndevice: cpu\n"
          "data_dir: /no/such\n",
          "memory (", (int64_t)1 << 46 },
        { "model_type: bert\nprecision: fp16\n", "", (int64_t)1 << 34 },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        const char *yaml = cases[i].yaml;
        char missing[VP_MISSING_TEXT];
        struct vp_config config;
        struct vp_err err = { .text = "" };
        int64_t batch = -1;

        if (vp_config_parse("a.yml", yaml, strlen(yaml), NULL, 0, &config,
                            &err) != VP_OK ||
            vp_compare_largest_batch(&config, cases[i].limit, &batch, missing,
                                     &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_true(batch > 10);
        assert_memory_equal(missing, cases[i].missing,
                            strlen(cases[i].missing));
        vp_config_release(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_become_medians),
        cmocka_unit_test(orders_are_stable),
        cmocka_unit_test(the_table_is_as_expected),
        cmocka_unit_test(orders_that_differ_are_told),
        cmocka_unit_test(the_picture_has_a_bar_for_everything),
        cmocka_unit_test(costs_are_lower_quartiles),
        cmocka_unit_test(other_problems_are_refused),
        cmocka_unit_test(what_one_compares_is_allowed),
        cmocka_unit_test(embeddings_are_untied_in_all),
        cmocka_unit_test(data_folders_are_compared_as_such),
        cmocka_unit_test(sets_take_their_time),
        cmocka_unit_test(methods_take_their_time),
        cmocka_unit_test(the_largest_batch_is_the_largest),
        cmocka_unit_test(nothing_fits_into_a_byte),
        cmocka_unit_test(batches_are_found_for_other_machines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
