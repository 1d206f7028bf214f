/* Trace files in Chrome's format are written and read without loss; wrong or
 * damaged files are refused with one line. */
#include "base/rng.h"
#include "lib/tracelib.h"
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Files -------------------------------------------------------------- */

static void assert_same(const struct vp_trace *a, const struct vp_trace *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->n_ranks, b->n_ranks);
    assert_int_equal(a->n_stages, b->n_stages);
    assert_int_equal(a->begin_ns, b->begin_ns);
    assert_int_equal(a->end_ns, b->end_ns);
    assert_memory_equal(a->stages, b->stages,
                        (size_t)a->n_stages * sizeof(*a->stages));
    for (int r = 0; r < a->n_ranks; r++) {
        assert_int_equal(a->ranks[r].number, b->ranks[r].number);
        assert_int_equal(a->ranks[r].n_events, b->ranks[r].n_events);
        for (int i = 0; i < a->ranks[r].n_events; i++) {
            const struct vp_trace_event *x = &a->ranks[r].events[i];
            const struct vp_trace_event *y = &b->ranks[r].events[i];

            assert_int_equal(x->start_ns, y->start_ns);
            assert_int_equal(x->end_ns, y->end_ns);
            assert_int_equal(x->wait_ns, y->wait_ns);
            assert_int_equal(x->mb, y->mb);
            assert_int_equal(x->stage, y->stage);
            assert_int_equal(x->kind, y->kind);
            assert_int_equal(x->eval, y->eval);
        }
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct vp_trace trace, again;
        struct vp_err err = { .text = "" };
        char *text;

        make_random(&trace, seed, 1 + (int)seed % 5, 1 + (int)seed % 7,
                    1 + (int)seed * 13);
        for (int r = 0; r < trace.n_ranks; r++)
            trace.ranks[r].number = trace.n_ranks - 1 - r;
        if (seed % 2)
            vp_trace_keep_last(&trace, 40);
        if (seed % 3 == 0)
            snprintf(trace.name, sizeof(trace.name),
                     "a \"run\" \\ of <caf\xC3\xA9>\n");
        text = chrome_text(&trace);
        if (read_text(text, strlen(text), &again, &err) != VP_OK)
            fail_msg("%s", err.text);
        assert_same(&trace, &again);
        free(text);
        vp_trace_release(&trace);
        vp_trace_release(&again);
    }
}

/* Names are cut between characters; a name that is not UTF-8 is left out. */
static void test_names(void **state)
{
    struct vp_recorder *recorder;
    const struct vp_recorder *list[1];
    struct vp_trace trace, again;
    char name[80], *text;

    (void)state;
    assert_int_equal(vp_recorder_create(1, &recorder), VP_OK);
    list[0] = recorder;
    memset(name, 'x', sizeof(name));
    name[62] = '\xC3';
    name[63] = '\xA9';
    name[79] = '\0';
    assert_int_equal(
        vp_trace_collect(name, list, 1, stages_by_hand, 1, &trace, NULL),
        VP_OK);
    assert_int_equal(strlen(trace.name), 62);
    trace.name[0] = '\xFF';
    text = chrome_text(&trace);
    assert_int_equal(read_text(text, strlen(text), &again, NULL), VP_OK);
    assert_string_equal(again.name, "run");
    assert_int_equal(again.ranks[0].n_events, 0);
    free(text);
    vp_trace_release(&trace);
    vp_trace_release(&again);
    vp_recorder_free(recorder);
}

/* The JSON that Chrome and Perfetto draw. */
static void test_chrome(void **state)
{
    static const char *const wanted[] = {
        "\"displayTimeUnit\":\"ms\"",
        "\"name\":\"process_name\",\"args\":{\"name\":\"by hand\"}",
        "\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"rank 0, "
        "stage 0\"}",
        "\"tid\":2,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":1}",
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":4000.000,\"dur\":1500.000,"
        "\"cat\":\"F\",\"name\":\"F1\",\"args\":{\"stage\":1,\"minibatch\":1,"
        "\"wait_ns\":500000}}",
        "{\"ph\":\"s\",\"pid\":1,\"tid\":1,\"ts\":1000.000,\"cat\":\"message\","
        "\"name\":\"activation\",\"id\":\"a1.0\"}",
        "{\"ph\":\"f\",\"bp\":\"e\",\"pid\":1,\"tid\":2,\"ts\":999.999,"
        "\"cat\":\"message\",\"name\":\"activation\",\"id\":\"a1.0\"}",
        "{\"ph\":\"s\",\"pid\":1,\"tid\":2,\"ts\":7000.000,\"cat\":\"message\","
        "\"name\":\"gradient\",\"id\":\"g0.1\"}",
        "{\"ph\":\"C\",\"pid\":1,\"ts\":6000.000,\"name\":\"memory of stage 0 "
        "on rank 0\",\"args\":{\"bytes\":1010}}",
    };
    struct vp_trace trace;
    char *text;

    (void)state;
    COLLECT(pipeline_by_hand, 2, 2, &trace);
    text = chrome_text(&trace);
    for (size_t i = 0; i < VP_COUNT_OF(wanted); i++)
        if (!strstr(text, wanted[i]))
            fail_msg("no %s in\n%s", wanted[i], text);
    assert_int_equal(count_in(text, "\"ph\":\"X\""),
                     VP_COUNT_OF(pipeline_by_hand));
    assert_int_equal(count_in(text, "\"ph\":\"s\""), 4);
    assert_int_equal(count_in(text, "\"ph\":\"f\""), 3);
    assert_int_equal(count_in(text, "\"ph\":\"C\""), 10);
    free(text);
    vp_trace_release(&trace);
}

/* ---- Bad files ---------------------------------------------------------- */

static const char good[] =
    "{\"otherData\":{\"format\":\"vpipe trace\",\"version\":1,\"name\":\"x\","
    "\"ranks\":2,\"begin_ns\":1000,\"end_ns\":9000,"
    "\"stages\":[{\"base_bytes\":5,\"slot_bytes\":6}]},"
    "\"traceEvents\":["
    "{\"ph\":\"M\",\"name\":\"process_name\"},"
    "{\"ph\":\"X\",\"tid\":2,\"ts\":1,\"dur\":2.5,\"cat\":\"F\",\"name\":"
    "\"F0\",\"args\":{\"stage\":0,\"minibatch\":7,\"wait_ns\":100}},"
    "{\"ph\":\"X\",\"tid\":2,\"ts\":3.5,\"dur\":1,\"cat\":\"B\","
    "\"args\":{\"stage\":0,\"minibatch\":7,\"wait_ns\":0}}]}";

static char *replace(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    size_t room = strlen(text) + strlen(to) + 1;
    char *out = malloc(room);

    assert_non_null(at);
    assert_non_null(out);
    snprintf(out, room, "%.*s%s%s", (int)(at - text), text, to,
             at + strlen(from));
    return out;
}

static void assert_one_line(const struct vp_err *err)
{
    assert_true(err->text[0] != '\0');
    for (const char *c = err->text; *c; c++)
        assert_true((unsigned char)*c >= ' ');
}

static void test_malformed(void **state)
{
    static const struct {
        const char *from, *to, *cause;
    } cases[] = {
        { "{\"other", "\"other", "not JSON" },
        { ",\"traceEvents\"", ",\"otherData\":1,\"traceEvents\"", "not JSON" },
        { "\"x\"", "\"\x01\n\"", "not JSON" },
        { "otherData", "elseData", "not a trace of vpipe" },
        { "vpipe trace", "other trace", "not a trace of vpipe" },
        { "\"format\":\"vpipe trace\"", "\"format\":[1]", "not a trace" },
        { "\"version\":1", "\"version\":2", "'version' must be 1" },
        { "\"version\":1", "\"version\":1.0", "'version' must be a whole" },
        { "\"ranks\":2", "\"ranks\":0", "'ranks' must be at least 1" },
        { "\"ranks\":2", "\"ranks\":4097", "'ranks'" },
        { "\"ranks\":2", "\"ranks\":-1", "'ranks'" },
        { "\"ranks\":2", "\"ranks\":1", "event 2: 'tid'" },
        { "\"ranks\":2", "\"ranks\":\"2\"", "'ranks'" },
        { "\"stages\"", "\"rank_numbers\":[1],\"stages\"",
          "a number per rank" },
        { "\"stages\"", "\"rank_numbers\":3,\"stages\"", "a number per rank" },
        { "\"stages\"", "\"rank_numbers\":[1,-1],\"stages\"", "whole numbers" },
        { "\"stages\"", "\"rank_numbers\":[4096,0],\"stages\"",
          "whole numbers" },
        { "\"stages\"", "\"rank_numbers\":[1,\"0\"],\"stages\"", "whole numb" },
        { "\"begin_ns\":1000", "\"begin_ns\":9001", "'end_ns'" },
        { "\"begin_ns\":1000", "\"begin_ns\":1001", "event 2: 'ts'" },
        { "\"begin_ns\":1000", "\"begin_ns\":-1", "'begin_ns'" },
        { "\"end_ns\":9000", "\"end_ns\":4499", "event 3: 'dur'" },
        { "\"end_ns\":9000", "\"end_ns\":9000000000000000000", "'end_ns'" },
        { "{\"base_bytes\":5,\"slot_bytes\":6}", "", "'stages'" },
        { "[{\"base_bytes\":5,\"slot_bytes\":6}]", "{}", "'stages'" },
        { "{\"base_bytes\":5,\"slot_bytes\":6}", "5", "stage 0: 'base" },
        { "\"slot_bytes\":6", "\"slot_bytes\":6.5", "stage 0: 'slot" },
        { "\"slot_bytes\":6", "\"slot_bytes\":1e30", "'slot_bytes'" },
        { "\"slot_bytes\":6", "\"slot_bytes\":6,\"host_bytes\":-1",
          "stage 0: 'host" },
        { "traceEvents", "events", "'traceEvents' must be a list" },
        { "{\"ph\":\"M\",\"name\":\"process_name\"}", "7", "event 1: 'ph'" },
        { "\"ph\":\"M\"", "\"ph\":\"Q\"", "event 1: 'ph'" },
        { "\"ph\":\"M\"", "\"ph\":\"\"", "event 1: 'ph'" },
        { "\"ph\":\"M\"", "\"ph\":\"MM\"", "event 1: 'ph'" },
        { "\"tid\":2", "\"tid\":0", "event 2: 'tid'" },
        { "\"tid\":2", "\"tid\":3", "event 2: 'tid'" },
        { "\"ts\":1,", "\"ts\":-1,", "event 2: 'ts'" },
        { "\"ts\":1,", "\"ts\":\"1\",", "event 2: 'ts'" },
        { "\"ts\":1,", "\"ts\":1e300,", "event 2: 'ts'" },
        { "\"ts\":1,", "\"ts\":0.999,", "event 2: 'ts'" },
        { "\"ts\":3.5", "\"ts\":3.499", "event 3: 'ts'" },
        { "\"dur\":2.5", "\"dur\":null", "event 2: 'dur'" },
        { "\"dur\":2.5", "\"dur\":9", "event 2: 'dur'" },
        { "\"dur\":2.5", "\"dur\":1e300", "event 2: 'dur'" },
        { "\"cat\":\"F\"", "\"cat\":\"Z\"", "event 2: 'cat'" },
        { "\"cat\":\"F\"", "\"cat\":3", "event 2: 'cat'" },
        { "\"cat\":\"F\"", "\"cat\":\"E\"", "event 2: 'cat'" },
        { "\"stage\":0", "\"stage\":1", "event 2: 'stage'" },
        { "\"stage\":0", "\"stage\":-1", "event 2: 'stage'" },
        { "\"minibatch\":7", "\"minibatch\":2147483647", "'minibatch'" },
        { "\"wait_ns\":100", "\"wait_ns\":2501", "event 2: 'wait_ns'" },
        { "\"args\":{", "\"arks\":{", "event 2: 'stage'" },
    };
    struct vp_trace trace;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(read_text(good, strlen(good), &trace, &err), VP_OK);
    assert_int_equal(trace.ranks[1].n_events, 2);
    assert_int_equal(trace.ranks[1].events[1].start_ns, 3500);
    vp_trace_release(&trace);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char *text = replace(good, cases[i].from, cases[i].to);

        err.text[0] = '\0';
        if (read_text(text, strlen(text), &trace, &err) != VP_ERR_INVALID)
            fail_msg("accepted: %s", text);
        if (!strstr(err.text, cases[i].cause))
            fail_msg("%s -> %s: %s", cases[i].from, cases[i].to, err.text);
        assert_one_line(&err);
        free(text);
    }
}

static void use(const struct vp_trace *trace)
{
    struct vp_trace_times *times = calloc((size_t)trace->n_ranks,
                                          sizeof(*times));
    double bubble = vp_trace_sum(trace, times);
    char *text;

    assert_true(bubble >= 0.0 && bubble <= 1.0);
    for (int r = 0; r < trace->n_ranks; r++)
        assert_true(times[r].bubble >= 0.0 && times[r].bubble <= 1.0);
    free(times);
    assert_int_equal(vp_trace_terminal(trace, 80, true, &text), VP_OK);
    free(text);
    assert_int_equal(vp_trace_svg(trace, NULL, &text), VP_OK);
    free(text);
}

/* A damaged file gives a usable trace, or an error of one line. */
static void test_mutations(void **state)
{
    static const char bytes[] = "0123456789-.eE\"{}[],:\\nulltrueXMF\x80\x01";
    struct vp_trace original;
    char *clean;
    size_t n;
    int n_read = 0;

    (void)state;
    make_random(&original, 77, 2, 3, 4);
    clean = chrome_text(&original);
    vp_trace_release(&original);
    n = strlen(clean);
    for (uint32_t i = 0; i < 4000; i++) {
        struct vp_rng4 x = vp_rng(5, VP_RNG_TEST, 2, i, 0, 0);
        size_t length = x.v[0] % 8 == 0 ? x.v[1] % n : n;
        char *text = malloc(n + 1);
        struct vp_err err = { .text = "" };
        struct vp_trace trace;

        memcpy(text, clean, n + 1);
        for (uint32_t k = 0; k <= x.v[2] % 3; k++) {
            struct vp_rng4 y = vp_rng(5, VP_RNG_TEST, 3, i, k, 0);

            text[y.v[0] % n] = bytes[y.v[1] % (sizeof(bytes) - 1)];
        }
        if (read_text(text, length, &trace, &err) == VP_OK) {
            n_read++;
            use(&trace);
            vp_trace_keep_last(&trace, 1 + (int)(x.v[3] % 4));
            use(&trace);
            vp_trace_release(&trace);
        } else {
            assert_one_line(&err);
        }
        free(text);
    }
    free(clean);
    assert_in_range(n_read, 100, 3000); /* both outcomes occur */
}

static void test_bad_paths(void **state)
{
    struct vp_trace trace;
    struct vp_err err = { .text = "" };

    (void)state;
    assert_int_equal(vp_trace_read_chrome("/tmp/no/such", &trace, &err),
                     VP_ERR_IO);
    assert_non_null(strstr(err.text, "/tmp/no/such: cannot be read"));
    assert_int_equal(vp_trace_read_chrome("/tmp", &trace, &err),
                     VP_ERR_INVALID);
    assert_one_line(&err);
    COLLECT(pipeline_by_hand, 2, 2, &trace);
    assert_int_equal(vp_trace_write_chrome(&trace, "/tmp/no/such", &err),
                     VP_ERR_IO);
    assert_non_null(strstr(err.text, "/tmp/no/such: cannot be written"));
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(vp_trace_write_chrome(&trace, "/dev/full", &err),
                         VP_ERR_IO);
        assert_non_null(strstr(err.text, "/dev/full: cannot be written"));
        assert_one_line(&err);
        assert_int_equal(access("/dev/full", W_OK), 0); /* still there */
    }
    vp_trace_release(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_names),
        cmocka_unit_test(test_chrome),     cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_mutations),  cmocka_unit_test(test_bad_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
