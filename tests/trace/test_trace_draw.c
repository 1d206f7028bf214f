/* Timelines as terminal rows and as SVG equal literal texts and stay within
 * their bounds. */
#include "lib/tracelib.h"
#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- The terminal ------------------------------------------------------- */

/* 42 columns on a time of 42 / 2 ms: two columns per millisecond. */
static void test_terminal(void **state)
{
    static const struct act acts[] = {
        { 0, "F", 0, 8, 0, 2, 0 },
        { 0, "R", 0, 12, 2, 4.5, 0 },
        { 0, "B", 0, 12, 6.5, 10, 0 },
        { 0, "UPDATE", 0, 3, 10, 10.4, 0 }, /* most of a column */
        { 0, "F", 0, 13, 10.4, 10.5, 0 },
        { 0, "F", 0, 14, 10.6, 10.8, 0 }, /* less than half of a column */
        { 1, "RECV_ACT", 1, 8, 0, 2, 2 },
        { 1, "F", 1, 8, 2, 6, 1 },
        { 1, "B", 1, 8, 6, 10, 0 },
        { 1, "REDUCE", 1, 3, 10, 12, 0 },
        { 1, "f", 1, 8, 18, 21, 0 },
    };
    static const char want[] =
        "rank 0   F8  R12  ....B12    U.....................   58.6 %\n"
        "rank 1   ......F8    B8      +3  ............E8       42.9 %\n"
        "         0                                    21 ms    bubble\n"
        "         F forward  R recompute  B backward  + reduce\n"
        "         U update  E evaluation  . idle\n";
    struct vp_trace trace;
    char *text;

    (void)state;
    COLLECT(acts, 2, 2, &trace);
    assert_int_equal(vp_trace_terminal(&trace, 61, false, &text), VP_OK);
    assert_string_equal(text, want);
    free(text);
    vp_trace_release(&trace);
}

static void strip_colours(char *text)
{
    char *out = text;

    while (*text) {
        if (*text == '\x1b')
            text += strcspn(text, "m") + 1;
        else
            *out++ = *text++;
    }
    *out = '\0';
}

/* Colours change only escape sequences, and no row is too long. */
static void test_colours(void **state)
{
    (void)state;
    for (int width = 1; width < 200; width += 7) {
        struct vp_trace trace;
        char *plain, *colour;

        make_random(&trace, (uint32_t)width, 3, 4, 60);
        assert_int_equal(vp_trace_terminal(&trace, width, false, &plain),
                         VP_OK);
        assert_int_equal(vp_trace_terminal(&trace, width, true, &colour),
                         VP_OK);
        assert_non_null(strstr(colour, "\x1b[0;38;5;16;48;5;"));
        assert_null(strchr(plain, '\x1b'));
        strip_colours(colour);
        assert_string_equal(plain, colour);
        for (int row = 0; row < 4; row++) {
            assert_true(strcspn(plain, "\n") <=
                        (size_t)(width > 40 ? width : 40));
            memmove(plain, strchr(plain, '\n') + 1,
                    strlen(strchr(plain, '\n') + 1) + 1);
        }
        free(plain);
        free(colour);
        vp_trace_release(&trace);
    }
}

/* ---- SVG ---------------------------------------------------------------- */

/* All tags are closed in order, attributes are quoted, and there is no
 * unescaped < or &. */
static void check_xml(const char *text)
{
    char open[16][16];
    int depth = 0;

    while (*text) {
        size_t n, name;
        bool closing;

        if (*text == '&')
            assert_true(strncmp(text, "&amp;", 5) == 0 ||
                        strncmp(text, "&lt;", 4) == 0 ||
                        strncmp(text, "&gt;", 4) == 0);
        assert_true(*text != '>');
        if (*text != '<') {
            text++;
            continue;
        }
        closing = text[1] == '/';
        text += 1 + closing;
        n = strcspn(text, "<>");
        assert_true(text[n] == '>');
        name = strspn(text, "abcdefghijklmnopqrstuvwxyz");
        assert_in_range(name, 1, 15);
        if (closing) {
            assert_true(depth > 0 && name == n);
            assert_memory_equal(open[--depth], text, name);
            assert_int_equal(open[depth][name], '\0');
        } else if (text[n - 1] != '/') {
            assert_true(depth < 16);
            snprintf(open[depth++], 16, "%.*s", (int)name, text);
        }
        text += n + 1;
    }
    assert_int_equal(depth, 0);
}

static void test_svg(void **state)
{
    static const char *const wanted[] = {
        ">two &lt;stages&gt; &amp; more</text>",
        "2 minibatches in 9 ms on 2 ranks: 36.1 % of their time",
        ">rank 1</text>",
        ">stage 1</text>",
        ">33.3 %</text>", /* bubbles */
        ">38.9 %</text>",
        ">forward</text>",
        ">backward</text>",
        ">waiting</text>",
        "<title>F1 of stage 1: 1 ms</title>",
        "<title>F1 of stage 1 waits 0.5 ms</title>",
        "<title>RECV_GRAD0 of stage 0 waits 2 ms</title>",
        ">1020 B</text>", /* peaks */
        ">1.97 KiB</text>",
        ">host 200 B</text>",
    };
    struct vp_trace trace;
    char *text;

    (void)state;
    COLLECT(pipeline_by_hand, 2, 2, &trace);
    assert_int_equal(vp_trace_svg(&trace, "two <stages> & more", &text), VP_OK);
    check_xml(text);
    for (size_t i = 0; i < VP_COUNT_OF(wanted); i++)
        if (!strstr(text, wanted[i]))
            fail_msg("no %s in\n%s", wanted[i], text);
    assert_null(strstr(text, ">recompute</text>"));
    assert_int_equal(count_in(text, "fill=\"#3b82f6\""), 1 + 4);
    assert_int_equal(count_in(text, "fill=\"#10a37f\""), 1 + 4);
    assert_int_equal(count_in(text, "fill=\"#dde5f0\""), 1 + 4);
    assert_int_equal(count_in(text, "<path"), 2);
    free(text);
    memset(trace.stages, 0, 2 * sizeof(*trace.stages));
    assert_int_equal(vp_trace_svg(&trace, NULL, &text), VP_OK);
    check_xml(text);
    assert_non_null(strstr(text, ">by hand</text>"));
    assert_null(strstr(text, "<path"));
    free(text);
    vp_trace_release(&trace);
}

/* Ranks are in the order of the schedule and have the user's numbers. */
static void test_numbers(void **state)
{
    struct vp_trace trace;
    const char *first;
    char *text;

    (void)state;
    COLLECT(pipeline_by_hand, 2, 2, &trace);
    assert_int_equal(trace.ranks[1].number, 1);
    trace.ranks[0].number = 5;
    trace.ranks[1].number = 3;
    assert_int_equal(vp_trace_terminal(&trace, 61, false, &text), VP_OK);
    assert_ptr_equal(strstr(text, "rank 5 "), text);
    assert_non_null(strstr(text, "\nrank 3 "));
    free(text);
    assert_int_equal(vp_trace_svg(&trace, NULL, &text), VP_OK);
    first = strstr(text, ">rank 5</text>");
    assert_non_null(first);
    assert_true(strstr(text, ">rank 3</text>") > first);
    assert_int_equal(count_in(text, ">rank 5</text>"), 2); /* memory, too */
    assert_int_equal(count_in(text, ">rank 0</text>"), 0);
    free(text);
    text = chrome_text(&trace);
    assert_non_null(strstr(text, "\"rank_numbers\":[5,3]"));
    assert_non_null(strstr(text, "\"name\":\"rank 5, stage 0\""));
    assert_non_null(strstr(text, "memory of stage 1 on rank 3\""));
    free(text);
    vp_trace_release(&trace);
}

/* Boxes stay within their lane in random traces. */
static void test_svg_bounds(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 30; seed++) {
        struct vp_trace trace;
        double width, x, y, w;
        char *text;

        make_random(&trace, seed, 1 + (int)seed % 8, 8, 1 + (int)seed * 20);
        assert_int_equal(vp_trace_svg(&trace, NULL, &text), VP_OK);
        check_xml(text);
        assert_int_equal(
            sscanf(strstr(text, "width=\""), "width=\"%lf\"", &width), 1);
        for (const char *at = text; (at = strstr(at, "<rect x=\"")); at++)
            if (sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\"", &x, &y,
                       &w) == 3)
                assert_true(x >= 127.99 && w >= 0 && x + w <= width - 91.98);
        free(text);
        vp_trace_release(&trace);
    }
}

static void test_empty(void **state)
{
    struct vp_trace_times times[2];
    struct vp_trace trace;
    char *text;

    (void)state;
    collect(NULL, 0, 4, 2, 2, &trace);
    assert_int_equal(vp_trace_n_minibatches(&trace), 0);
    vp_trace_keep_last(&trace, vp_trace_some(&trace));
    assert_float_equal(vp_trace_sum(&trace, times), 0.0, 0.0);
    assert_int_equal(vp_trace_svg(&trace, NULL, &text), VP_OK);
    check_xml(text);
    free(text);
    assert_int_equal(vp_trace_terminal(&trace, 80, false, &text), VP_OK);
    assert_non_null(strstr(text, "rank 1   ......."));
    free(text);
    vp_trace_release(&trace);
    vp_trace_release(&trace);
}

/* The plan changes from four stages to two: the trace has the stages of both
 * plans and shows where the second plan begins. */
static void test_new_plan(void **state)
{
    static const struct act acts[] = {
        { 0, "F", 0, 0, 100, 101, 0 }, { 0, "F", 3, 0, 101, 102, 0 },
        { 0, "B", 3, 0, 102, 103, 0 }, { 0, "F", 0, 1, 104, 106, 0 },
        { 0, "B", 0, 1, 106, 108, 0 },
    };
    struct vp_recorder *recorder;
    const struct vp_recorder *list[1];
    struct vp_trace_point *points;
    struct vp_trace trace, again;
    char *text;
    int n;

    (void)state;
    assert_int_equal(vp_recorder_create(64, &recorder), VP_OK);
    for (size_t i = 0; i < VP_COUNT_OF(acts); i++)
        vp_recorder_add(recorder, event_of(&acts[i]));
    recorder->plan_ns = (int64_t)103500 * 1000;
    list[0] = recorder;
    assert_int_equal(
        vp_trace_collect("moved", list, 1, stages_by_hand, 2, &trace, NULL),
        VP_OK);
    assert_int_equal(trace.n_stages, 4);
    assert_int_equal(trace.stages[3].slot_bytes, 0);
    assert_int_equal(trace.plan_ns, 3500000);
    assert_int_equal(vp_trace_memory(&trace, 0, 3, &points, &n), VP_OK);
    free(points);
    text = chrome_text(&trace);
    assert_int_equal(count_in(text, "\"name\":\"new plan\""), 1);
    assert_int_equal(read_text(text, strlen(text), &again, NULL), VP_OK);
    assert_int_equal(again.plan_ns, 3500000);
    assert_int_equal(again.n_stages, 4);
    free(text);
    assert_int_equal(vp_trace_svg(&again, NULL, &text), VP_OK);
    assert_int_equal(count_in(text, ">new plan<"), 1);
    free(text);
    vp_trace_keep_last(&again, 1); /* the last minibatch is after the change */
    assert_int_equal(vp_trace_svg(&again, NULL, &text), VP_OK);
    assert_int_equal(count_in(text, ">new plan<"), 0);
    free(text);
    vp_trace_release(&trace);
    vp_trace_release(&again);
    vp_recorder_free(recorder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terminal), cmocka_unit_test(test_colours),
        cmocka_unit_test(test_svg),      cmocka_unit_test(test_svg_bounds),
        cmocka_unit_test(test_numbers),  cmocka_unit_test(test_empty),
        cmocka_unit_test(test_new_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
