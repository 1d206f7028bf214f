/* Reports reduce their curves to buckets, find causes of lost time, and escape
 * text, also for run folders that are broken or hostile. */
#include "base/strbuf.h"
#include "report/findings.h"
#include "report/page.h"
#include "report/run_data.h"
#include "report/series.h"

#include "lib/removelib.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Buckets of a curve --------------------------------------------------- */

/* The bucket holds the values of exactly the points [first, last]. */
static void check_bucket(const struct vp_bucket *bucket, int first, int last)
{
    const struct vp_series_range *range = &bucket->at[0];
    double least = INFINITY, most = -INFINITY, sum = 0.0;

    for (int i = first; i <= last; i++) {
        double v = (i * 7919) % 1000;

        least = fmin(least, v);
        most = fmax(most, v);
        sum += v;
    }
    assert_true(range->least == least && range->most == most);
    assert_true(range->sum == sum);
    assert_int_equal(range->n, last - first + 1);
    assert_true(bucket->x.step == last);
    assert_int_equal(bucket->at[1].n, 0);
}

static void test_series(void **state)
{
    static const int counts[] = { 0, 1, 7, 8, 9, 16, 17, 1000 };

    (void)state;
    for (size_t k = 0; k < VP_COUNT_OF(counts); k++) {
        struct vp_series series;
        int first = 0;

        assert_int_equal(vp_series_init(&series, 2, 8), VP_OK);
        for (int i = 0; i < counts[k]; i++)
            vp_series_add(&series, &(struct vp_series_x){ .step = i },
                          (const double[]){ (i * 7919) % 1000, NAN });
        assert_true(series.n <= 8);
        assert_true(counts[k] <= 8 ? series.n == counts[k] : series.n > 4);
        for (int b = 0; b < series.n; b++) {
            int last = first + (int)series.stride - 1;

            last = last < counts[k] ? last : counts[k] - 1;
            check_bucket(&series.buckets[b], first, last);
            first = last + 1;
        }
        assert_int_equal(first, counts[k]);
        vp_series_release(&series);
    }
}

static void test_range_mean(void **state)
{
    (void)state;
    assert_true(isnan(vp_range_mean(&(struct vp_series_range){ .n = 0 })));
    assert_true(vp_range_mean(&(struct vp_series_range){ .sum = 6, .n = 4 }) ==
                1.5);
}

/* ---- Findings ------------------------------------------------------------- */

/* Makes a trace of `n_mb` minibatches on one rank per stage, one after the
 * other: stage s takes ms[s] for F, twice that for B, and r_ms[s] for R. */
static void make_trace(struct vp_trace *trace, int n_stages, int n_mb,
                       const int *ms, const int *r_ms, int window_ms)
{
    *trace = (struct vp_trace){ .n_ranks = n_stages,
                                .n_stages = n_stages,
                                .end_ns = window_ms * INT64_C(1000000) };
    trace->ranks = calloc((size_t)n_stages, sizeof(*trace->ranks));
    trace->stages = calloc((size_t)n_stages, sizeof(*trace->stages));
    for (int s = 0; s < n_stages; s++) {
        struct vp_trace_rank *rank = &trace->ranks[s];
        int64_t now = 0;

        rank->number = s;
        rank->events = calloc((size_t)(3 * n_mb), sizeof(*rank->events));
        for (int m = 0; m < n_mb; m++) {
            const int64_t lengths[] = { ms[s], r_ms[s], 2 * ms[s] };
            const int kinds[] = { VP_ACTION_F, VP_ACTION_R, VP_ACTION_B };

            for (int k = 0; k < 3; k++)
                if (lengths[k] > 0) {
                    rank->events[rank->n_events++] = (struct vp_trace_event){
                        .start_ns = now * 1000000,
                        .end_ns = (now + lengths[k]) * 1000000,
                        .mb = m,
                        .stage = (int16_t)s,
                        .kind = (uint8_t)kinds[k],
                    };
                    now += lengths[k];
                }
        }
    }
}

static void find(const struct vp_plan *plan, const struct vp_trace *trace,
                 int64_t memory_limit, struct vp_limits *out)
{
    static const double bytes[] = { 1048576.0, 2097152.0, 1048576.0,
                                    1048576.0 };
    const struct vp_limit_facts facts = { .plan = plan,
                                          .trace = trace,
                                          .memory_limit = memory_limit,
                                          .stage_bytes = bytes,
                                          .n_stage_bytes = 4,
                                          .bubble = NAN };

    vp_limits_find(&facts, out);
    vp_findings_make(&facts, out);
}

static void check_shares(const struct vp_limits *l)
{
    double sum = l->compute + l->recompute + l->update + l->evaluation +
                 l->fill + l->imbalance + l->swap + l->rest;

    assert_true(fabs(sum - 1.0) < 1e-9);
}

static const int none[4];

/* Four stages, four minibatches, 1f1b: the bubble is 3/7. */
static void test_few_minibatches(void **state)
{
    const struct vp_plan plan = { .schedule = "1f1b",
                                  .accumulation_steps = 4,
                                  .n_stages = 4,
                                  .partition = (const int[]){ 2, 2, 2, 2 } };
    struct vp_trace trace;
    struct vp_limits limits;

    (void)state;
    make_trace(&trace, 4, 4, (const int[]){ 10, 10, 10, 10 }, none, 210);
    find(&plan, &trace, 0, &limits);
    assert_true(fabs(limits.compute - 120.0 / 210.0) < 1e-9);
    assert_true(fabs(limits.fill - 90.0 / 210.0) < 1e-9);
    assert_true(limits.imbalance < 1e-9 && limits.rest < 1e-9);
    assert_true(fabs(limits.theory - 3.0 / 7.0) < 1e-9);
    assert_int_equal(limits.enough_mb, 27); /* 3 / (27 + 3) = 0.1 */
    assert_int_equal(limits.n_findings, 1);
    assert_non_null(strstr(limits.findings[0].title,
                           "Too few minibatches per update: 4 for 4 stages"));
    assert_non_null(
        strstr(limits.findings[0].remedy, "accumulation_steps: 27"));
    check_shares(&limits);
    vp_trace_release(&trace);
}

/* In a stream the slowest stage sets the throughput. */
static void test_slow_stage(void **state)
{
    struct vp_plan plan = { .schedule = "pipedream",
                            .n_stages = 4,
                            .partition = (const int[]){ 2, 2, 6, 2 } };
    struct vp_trace trace;
    struct vp_limits limits;

    (void)state;
    make_trace(&trace, 4, 10, (const int[]){ 10, 10, 30, 10 }, none, 900);
    find(&plan, &trace, 0, &limits);
    assert_int_equal(limits.slowest, 2);
    assert_true(fabs(limits.slowest_ratio - 3.0) < 1e-9);
    assert_true(fabs(limits.imbalance - 0.5) < 1e-9);
    assert_int_equal(limits.n_findings, 1);
    assert_non_null(strstr(limits.findings[0].title, "Stage 2 is slow"));
    assert_non_null(strstr(limits.findings[0].text,
                           "90 ms on each minibatch, 3 "
                           "times as long"));
    assert_non_null(
        strstr(limits.findings[0].text, "stage 2 holds 6 of the 12 blocks"));
    check_shares(&limits);
    plan.partition = (const int[]){ 3, 3, 3, 3 };
    find(&plan, &trace, 0, &limits);
    assert_non_null(
        strstr(limits.findings[0].text, "the partition is not the cause"));
    vp_trace_release(&trace);
}

/* The window is twice as long: time that the slowest stage does not explain is
 * `rest`. */
static void test_rest(void **state)
{
    const struct vp_plan plan = { .schedule = "pipedream",
                                  .n_stages = 4,
                                  .partition = (const int[]){ 2, 2, 6, 2 } };
    struct vp_trace trace;
    struct vp_limits limits;

    (void)state;
    make_trace(&trace, 4, 10, (const int[]){ 10, 10, 30, 10 }, none, 1800);
    find(&plan, &trace, 0, &limits);
    assert_true(fabs(limits.imbalance - 0.25) < 1e-9);
    assert_true(fabs(limits.rest - 0.5) < 1e-9);
    assert_int_equal(limits.n_findings, 2);
    /* A finding with a known cause comes first. */
    assert_non_null(strstr(limits.findings[0].title, "Stage 2 is slow"));
    check_shares(&limits);
    vp_trace_release(&trace);
}

/* A step is faster than the simulated one: the causes are scaled to the time
 * that was lost. */
static void test_faster_than_simulated(void **state)
{
    const struct vp_plan plan = { .schedule = "1f1b",
                                  .accumulation_steps = 4,
                                  .n_stages = 4,
                                  .partition = (const int[]){ 2, 2, 6, 2 } };
    struct vp_trace trace;
    struct vp_limits limits;

    (void)state;
    make_trace(&trace, 4, 4, (const int[]){ 10, 10, 30, 10 }, none, 360);
    find(&plan, &trace, 0, &limits);
    assert_true(limits.fill > 0.0 && limits.imbalance > 0.0);
    assert_true(limits.rest < 1e-9);
    check_shares(&limits);
    vp_trace_release(&trace);
}

static void test_memory_bound(void **state)
{
    const struct vp_plan plan = { .schedule = "pipedream",
                                  .n_stages = 4,
                                  .partition = (const int[]){ 2, 2, 2, 2 } };
    struct vp_trace trace;
    struct vp_limits limits;

    (void)state;
    make_trace(&trace, 4, 10, (const int[]){ 10, 10, 10, 10 },
               (const int[]){ 10, 10, 10, 10 }, 400);
    find(&plan, &trace, 2202010, &limits);
    assert_true(fabs(limits.recompute - 0.25) < 1e-9);
    assert_int_equal(limits.n_findings, 1);
    assert_non_null(strstr(limits.findings[0].title, "Memory is the limit: "
                                                     "stages recompute"));
    assert_non_null(strstr(limits.findings[0].text, "Stage 1 uses 2 MiB of its "
                                                    "memory_limit of 2.1 MiB "
                                                    "(95 %)"));
    find(&plan, &trace, 0, &limits);
    assert_non_null(strstr(limits.findings[0].title, "to save memory"));
    vp_trace_release(&trace);
}

static void test_nothing_found(void **state)
{
    struct vp_trace trace;
    struct vp_limits limits;

    (void)state;
    find(NULL, NULL, 0, &limits);
    assert_int_equal(limits.n_findings, 1);
    assert_false(limits.known);
    make_trace(&trace, 2, 10, (const int[]){ 10, 10 }, none, 310);
    find(NULL, &trace, 0, &limits);
    assert_int_equal(limits.n_findings, 1);
    assert_non_null(strstr(limits.findings[0].title, "No single cause"));
    check_shares(&limits);
    vp_trace_release(&trace);
}

/* ---- Pages ------------------------------------------------------------------ */

static char folder[] = "/tmp/vpipe_report_XXXXXX";

static void put_file(const char *name, const char *bytes, size_t n)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void put_text(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

static char *make_page(const struct vp_report_options *options)
{
    const char *folders[] = { folder };
    struct vp_strbuf page = VP_STRBUF_INIT;
    struct vp_err err = { .text = "" };
    char *text;

    if (vp_report_page(folders, 1, options, &page, &err) != VP_OK)
        fail_msg("%s", err.text);
    assert_int_equal(vp_strbuf_detach(&page, &text), VP_OK);
    return text;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

#define STEP(n, loss)                                                     \
    "{\"step\": " #n ", \"loss\": " loss ", \"lr\": 0.1, \"grad_norm\": " \
    "[3, 4], \"tokens_per_second\": 100, \"seconds\": 0.5, \"bubble\": "  \
    "0.25, \"memory\": [1024, 2048]}\n"

#define EVIL "\"><img src=x onerror=alert(1)></script><script>alert(2)</script>"

/* No text of the files becomes a tag, an attribute or a script. */
static void test_hostile_folder(void **state)
{
    static const char config[] = "model_type: '" EVIL "'\nmemory_limit: 1G\n";
    static const char metrics[] = STEP(
        1, "2.5") "{\"step\": 2, \"event\": \"rebalance\", \"why\": "
                  "\"</script><script>alert(3)</script>\\u0001\\\"'\", "
                  "\"partition\": [1, 2]}\n";
    static const char log[] = "warning: " EVIL "\x01\xff\xfe'\n"
                              "Saved checkpoint to x/checkpoints/step-7\n";
    char *page, *at;
    int n_scripts = 0;

    (void)state;
    put_text("config.yml", config);
    put_text("metrics.jsonl", metrics);
    put_text("output.log.0", log);
    page = make_page(NULL);
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "alert(1)>"));
    assert_null(strstr(page, "<script>alert"));
    assert_null(strchr(page, '\x01'));
    assert_null(strchr(page, '\xff'));
    for (at = page; (at = strstr(at, "<script")); at++)
        n_scripts++;
    assert_int_equal(n_scripts, 2); /* the data, and the page's script */
    assert_non_null(strstr(page, "&quot;&gt;&lt;img src=x"));
    assert_non_null(strstr(page, "checkpoint saved"));
    /* The page has no address but the SVG namespace, and loads nothing. */
    assert_null(strstr(page, " src=\""));
    for (at = page; (at = strstr(at, "href=")); at++)
        assert_true(strncmp(at, "href=\"#", 7) == 0);
    free(page);
}

static void test_broken_files(void **state)
{
    static const char *const lines[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"step\": }",
        "{\"step\": 1",
        "{\"step\": -1}",
        "{\"step\": 1} x",
        "{\"step\": 1, \"loss\": 1e999}",
        "\xff\xfe",
        "{\"step\": 1, \"event\": \"\\u12\"}",
        "{\"step\": 1,}",
        "{\"a\": [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]], \"step\": 1}",
    };
    struct vp_strbuf text = VP_STRBUF_INIT;
    char note[64];
    char *page;

    (void)state;
    vp_strbuf_adds(&text, STEP(1, "2.5"));
    for (size_t i = 0; i < VP_COUNT_OF(lines); i++)
        vp_strbuf_addf(&text, "%s\n", lines[i]);
    vp_strbuf_adds(&text, STEP(2, "null"));
    vp_strbuf_add(&text, "{\"st\0ep\": 1}\n", 13);
    vp_strbuf_adds(&text, "{\"step\": 3, \"loss\": 1."); /* unfinished */
    put_file("metrics.jsonl", text.at, text.n_bytes);
    vp_strbuf_release(&text);
    put_text("plan.json", "{\"partition\": [1, ");
    put_text("trace.json", "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{");
    put_text("config.yml", "a: [\n");
    page = make_page(NULL);
    snprintf(note, sizeof(note), "metrics.jsonl: %d lines were left out",
             (int)VP_COUNT_OF(lines) + 2);
    assert_non_null(strstr(page, note));
    assert_non_null(strstr(page, "the first is line 2"));
    assert_non_null(strstr(page, "plan.json was left out"));
    assert_non_null(strstr(page, "trace.json was left out"));
    assert_non_null(strstr(page, "config.yml was left out"));
    assert_non_null(strstr(page, "\"loss\":{\"mean\":[2.5,null]}"));
    assert_non_null(strstr(page, "\"norm\":{\"mean\":[5,5]}"));
    free(page);
}

/* With more lines than are kept, the newest ones stay, in order. */
static void test_many_events(void **state)
{
    enum { N = VP_RUN_DATA_EVENTS + 50 };
    struct vp_strbuf log = VP_STRBUF_INIT;
    const char *at;
    char *page;

    (void)state;
    for (int i = 0; i < N; i++)
        vp_strbuf_addf(&log, "warning %d of many\n", i);
    put_text("config.yml", "model_type: bert\n");
    put_text("metrics.jsonl", STEP(1, "2.5"));
    put_text("output.log.0", log.at);
    vp_strbuf_release(&log);
    page = make_page(NULL);
    assert_null(strstr(page, "warning 49 of many"));
    at = page;
    for (int i = 50; i < N; i++) {
        char want[32];

        snprintf(want, sizeof(want), ">warning %d of many<", i);
        at = strstr(at, want);
        assert_non_null(at);
    }
    free(page);
}

static void test_same_bytes(void **state)
{
    char *a, *b;

    (void)state;
    put_text("metrics.jsonl",
             STEP(1, "2.5") STEP(2, "2.25") "{\"step\": 5, \"eval_loss\": 3, "
                                            "\"event\": \"eval\"}\n");
    a = make_page(NULL);
    b = make_page(NULL);
    assert_string_equal(a, b);
    assert_non_null(strstr(a, "\"evals\":{\"step\":[5],\"tokens\":[100],"
                              "\"time\":[1],\n\"loss\":{\"mean\":[3]}"));
    free(a);
    free(b);
}

/* The policy holds the hash of an empty script; the expected value is from
 * openssl. */
static void test_policy(void **state)
{
    const struct vp_report_options live = { .live_script = "" };
    char *page;

    (void)state;
    page = make_page(NULL);
    assert_non_null(strstr(page, "default-src 'none'"));
    assert_null(strstr(page, "connect-src"));
    assert_null(strstr(page, "unsafe"));
    free(page);
    page = make_page(&live);
    assert_non_null(
        strstr(page, " 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; "
                     "connect-src 'self'\">"));
    assert_non_null(strstr(page, "<script></script>"));
    free(page);
}

static void test_not_a_run(void **state)
{
    const char *folders[] = { "/tmp" };
    struct vp_strbuf page = VP_STRBUF_INIT;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_report_page(folders, 1, NULL, &page, &err),
                     VP_ERR_INVALID);
    assert_non_null(strstr(err.text, "/tmp is not the folder of a run"));
    assert_int_equal(vp_report_page(folders, 0, NULL, &page, &err),
                     VP_ERR_INVALID);
    assert_int_equal(page.n_bytes, 0);
    vp_strbuf_release(&page);
}

/* The size of the page does not grow with the number of steps. */
static void test_large_run(void **state)
{
    enum { N_STEPS = 200000 };
    struct vp_strbuf text = VP_STRBUF_INIT;
    char *page;

    (void)state;
    for (int i = 1; i <= N_STEPS; i++) {
        vp_strbuf_addf(&text,
                       "{\"step\": %d, \"loss\": %.17g, \"lr\": %.9g, "
                       "\"grad_norm\": %.17g, \"tokens_per_second\": %.6g, "
                       "\"seconds\": 0.012345, \"bubble\": 0.123456, "
                       "\"memory\": [9549824, 9781248]}\n",
                       i, 5.0 / (1.0 + 1e-4 * i) + 0.1 * (i * 7919 % 101) / 101,
                       1e-3 / i, 3.0 + (i * 31 % 17) * 0.1, 1e5 + i % 1000);
        if (i % 10 == 0)
            vp_strbuf_addf(&text,
                           "{\"step\": %d, \"eval_loss\": %.17g, \"event\": "
                           "\"eval\"}\n",
                           i, 4.0 / i);
    }
    put_file("metrics.jsonl", text.at, text.n_bytes);
    vp_strbuf_release(&text);
    page = make_page(NULL);
    assert_true(strlen(page) < 1000000);
    assert_non_null(strstr(page, "<td class=\"num\">200000</td>"));
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_range_mean),
        cmocka_unit_test(test_few_minibatches),
        cmocka_unit_test(test_slow_stage),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_faster_than_simulated),
        cmocka_unit_test(test_memory_bound),
        cmocka_unit_test(test_nothing_found),
        cmocka_unit_test(test_hostile_folder),
        cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_many_events),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_policy),
        cmocka_unit_test(test_not_a_run),
        cmocka_unit_test(test_large_run),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
