/* The reader of metrics.jsonl reads numbers as strtod() does, skips broken
 * lines, and accepts files that end anywhere. */
#include "run/metrics.h"

#include "lib/removelib.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool parse(const char *text, struct vp_metrics_record *out)
{
    return vp_metrics_parse(text, strlen(text), out);
}

static void test_step(void **state)
{
    struct vp_metrics_record r;

    (void)state;
    assert_true(parse(
        "{\"step\": 12, \"epoch\": 0, \"minibatch\": 48, \"loss\": "
        "5.5773030519485474, \"lr\": 1.66666669e-05, \"grad_norm\": null, "
        "\"loss_scale\": 65536, \"skipped\": 3, \"samples_per_second\": 356.662, "
        "\"tokens_per_second\": 11413.2, \"tflops\": 0.07, \"seconds\": "
        "0.179442, \"bubble\": -0.5, \"memory\": [9549824, 1]}",
        &r));
    assert_int_equal(r.step, 12);
    assert_true(r.loss == 5.5773030519485474 && r.lr == 1.66666669e-05);
    assert_true(isnan(r.grad_norm) && isnan(r.eval_loss));
    assert_true(r.minibatch == 48 && r.loss_scale == 65536 && r.skipped == 3);
    assert_true(r.samples_per_second == 356.662 && r.seconds == 0.179442);
    assert_true(r.tokens_per_second == 11413.2 && r.bubble == -0.5);
    assert_int_equal(r.memory.n, 2);
    assert_true(r.memory.at[0] == 9549824 && r.memory.at[1] == 1);
    assert_string_equal(r.event, "");
    assert_true(parse("{\"step\": 1, \"grad_norm\": [3, 4]}", &r));
    assert_true(r.grad_norm == 5.0);
}

static void test_events(void **state)
{
    struct vp_metrics_record r;

    (void)state;
    assert_true(
        parse("{\"step\": 10, \"eval_loss\": 5.25, \"event\": \"eval\"}", &r));
    assert_true(r.eval_loss == 5.25);
    assert_string_equal(r.event, "eval");
    assert_true(
        parse("{\"step\": 3, \"event\": \"rebalance\", \"why\": \"a\\\"\\u00e9"
              "\\n\\ud800b\", \"blocks_moved\": 2, \"bytes_moved\": 77, "
              "\"move_seconds\": 0.25, \"exact\": true, \"x\": {\"y\": [1, "
              "\"]}\"]}, \"partition\": [2, 1]}",
              &r));
    assert_string_equal(r.why, "a\"\xc3\xa9\n?b");
    assert_true(r.blocks_moved == 2 && r.bytes_moved == 77);
    assert_true(r.move_seconds == 0.25 && r.partition.at[0] == 2);
    assert_true(parse("{\"step\": 3, \"event\": \"forecast\", \"forecast_by\": "
                      "\"plan\", \"step_seconds_forecast\": 1, "
                      "\"step_seconds_measured\": 2, \"bubble_forecast\": 3, "
                      "\"bubble_measured\": 4}",
                      &r));
    assert_string_equal(r.forecast_by, "plan");
    assert_true(r.step_seconds_forecast == 1 && r.step_seconds_measured == 2);
    assert_true(r.bubble_forecast == 3 && r.bubble_measured == 4);
}

/* Random decimals of all lengths equal those of strtod(), bit for bit. */
static void test_numbers(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        char number[64], line[128];
        struct vp_metrics_record r;
        double value = ldexp((double)(i * UINT32_C(2654435761)),
                             (int)(i % 120) - 90);

        snprintf(number, sizeof(number), i % 3 == 0 ? "%.*f" : "%.*g",
                 (int)(i % 19), i % 2 ? value : -value);
        snprintf(line, sizeof(line), "{\"step\": 1, \"loss\": %s}", number);
        if (!parse(line, &r) || r.loss != strtod(number, NULL))
            fail_msg("%s: %.17g", number, r.loss);
    }
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "{}",
        "[1]",
        "{\"step\"}",
        "{\"step\": }",
        "{\"step\": null}",
        "{\"step\": -1}",
        "{\"step\": 1",
        "{\"step\": 1}}",
        "{\"step\": 1} 2",
        "{\"step\": 1,}",
        "{\"step\": 1 \"loss\": 2}",
        "{\"step\": 1, \"loss\": 1e999}",
        "{\"step\": 1, \"loss\": .5}",
        "{\"step\": 1, \"loss\": \"x\"}",
        "{\"step\": 1, \"loss\": nan}",
        "{\"step\": 1, \"memory\": [1, 2}",
        "{\"step\": 1, \"memory\": 7}",
        "{\"step\": 1, \"why\": \"\\x\"}",
        "{\"step\": 1, \"why\": \"\\u12g4\"}",
        "{\"step\": 1, \"why\": \"\\",
        "{\"step\": 1, \"why\": \"\\u00",
        "{\"x\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]], \"step\": 1}",
        "{\"step\": 1234567890123456",
    };
    struct vp_metrics_record r;

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(bad); i++) {
        size_t n = strlen(bad[i]);
        char *exact = malloc(n + 1); /* sanitizers see a read behind its end */

        assert_non_null(exact);
        memcpy(exact, bad[i], n);
        if (vp_metrics_parse(exact, n, &r))
            fail_msg("'%s' was accepted", bad[i]);
        free(exact);
    }
}

/* A text or a list that does not fit into the record is cut. */
static void test_long_values(void **state)
{
    char line[8192] = "{\"step\": 1, \"why\": \"";
    struct vp_metrics_record r;
    size_t n = strlen(line);

    (void)state;
    memset(line + n, 'a', 1000);
    n += 1000;
    n += (size_t)snprintf(line + n, sizeof(line) - n, "\", \"memory\": [0");
    for (int i = 1; i < 1000; i++)
        n += (size_t)snprintf(line + n, sizeof(line) - n, ",%d", i);
    snprintf(line + n, sizeof(line) - n, "]}");
    assert_true(parse(line, &r));
    assert_int_equal(strlen(r.why), VP_METRICS_TEXT - 1);
    assert_int_equal(r.memory.n, VP_METRICS_STAGES);
    assert_true(r.memory.at[VP_METRICS_STAGES - 1] == VP_METRICS_STAGES - 1);
}

/* ---- Whole files -------------------------------------------------------- */

static char folder[] = "/tmp/vpipe_metrics_XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return remove_tree(folder);
}

static void put_file(const char *text, size_t n)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    fwrite(text, 1, n, f);
    fclose(f);
}

static void add_step(void *ctx, const struct vp_metrics_record *record)
{
    *(int64_t *)ctx = *(int64_t *)ctx * 10 + record->step;
}

static void check_file(const char *text, size_t n, int64_t want, int64_t n_bad,
                       int64_t first_bad)
{
    struct vp_metrics_faults faults;
    struct vp_err err;
    int64_t steps = 0;

    put_file(text, n);
    assert_int_equal(vp_metrics_read(folder, add_step, &steps, &faults, &err),
                     VP_OK);
    assert_int_equal(steps, want);
    assert_int_equal(faults.n_bad, n_bad);
    assert_int_equal(faults.first_bad, first_bad);
}

static void test_file(void **state)
{
    static const char cut[] = "{\"step\": 1}\n\n{\"step\": 2}\r\n{\"step\": 3}";
    static const char nul[] = "{\"step\": 1\0}\n{\"step\": 2}\n";
    static const char end[] = "\"}\n{\"step\": 7}\n";
    enum { LONG = 2 * VP_METRICS_LINE + 100 };
    char *text = malloc(LONG + 64);
    struct vp_metrics_faults faults;
    struct vp_err err;
    int64_t steps = 0;

    (void)state;
    assert_non_null(text);
    assert_int_equal(vp_metrics_read(folder, add_step, &steps, &faults, &err),
                     VP_OK);
    assert_int_equal(steps, 0);
    check_file("", 0, 0, 0, 0);
    check_file(cut, sizeof(cut) - 1, 12, 2, 2);
    check_file(nul, sizeof(nul) - 1, 2, 1, 1);
    /* Lines of all lengths around that of the buffer; longer ones are
     * skipped. */
    for (int n = VP_METRICS_LINE - 20; n < VP_METRICS_LINE + 20; n++) {
        bool fits = n + 3 < VP_METRICS_LINE;

        snprintf(text, LONG, "{\"step\": 4, \"why\": \"");
        memset(text + strlen(text), 'a', LONG);
        memcpy(text + n, end, sizeof(end));
        check_file(text, (size_t)n + sizeof(end) - 1, fits ? 47 : 7, !fits,
                   !fits);
    }
    /* The end of a line that is too long is not read as another record. */
    memset(text, 'a', LONG);
    memcpy(text + VP_METRICS_LINE - 1, end + 3, sizeof(end) - 3);
    check_file(text, VP_METRICS_LINE - 1 + sizeof(end) - 4, 0, 1, 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),        cmocka_unit_test(test_events),
        cmocka_unit_test(test_numbers),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_values), cmocka_unit_test(test_file),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
