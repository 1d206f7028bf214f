/* Clocks advance, time limits hold, blocking calls are reported, CPU starvation
 * is detected, and a wait starts again after the process was frozen. */
#include "base/blocking.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/halves.h"
#include "base/limit.h"
#include "base/numa.h"
#include "base/status.h"
#include "lib/signal_of_child.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_clock(void **state)
{
    int64_t start = vp_clock_ns();
    int64_t last = start;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t now = vp_clock_ns();

        assert_true(now >= last);
        last = now;
    }
    usleep(20000);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) >= 0.02);
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 20);
    assert_true(vp_clock_seconds(0, 1500000000) == 1.5);
}

#define MS INT64_C(1000000)

/* vp_blocking_longest() returns the oldest call of a kind, with the path of its
 * file. */
static void test_blocking_calls(void **state)
{
    int64_t n = vp_blocking_count();
    struct vp_blocking call;
    char path[1000], text[VP_BLOCKING_TEXT];
    int first, second, third, fd = open("/dev/null", O_RDONLY);

    (void)state;
    assert_false(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    first = vp_blocking_begin(VP_BLOCKING_FILE, "opening", "/a/b", -1);
    second = vp_blocking_begin(VP_BLOCKING_FILE, "reading", NULL, fd);
    third = vp_blocking_begin(VP_BLOCKING_PEERS, "waiting", NULL, -1);
    assert_true(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    assert_string_equal(call.text, "opening /a/b");
    assert_true(call.since_ns <= vp_clock_ns());
    vp_blocking_end(first);
    assert_int_equal(vp_blocking_count(), n + 1);
    first = vp_blocking_begin(VP_BLOCKING_FILE, "opening", "/newer", -1);
    assert_true(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    assert_string_equal(call.text, "reading /dev/null");
    vp_blocking_end(second);
    vp_blocking_end(first);
    close(fd);
    assert_int_equal(vp_blocking_count(), n + 3);
    assert_false(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    assert_true(vp_blocking_longest(VP_BLOCKING_PEERS, &call));
    assert_string_equal(call.text, "waiting");
    vp_blocking_end(third);
    assert_int_equal(vp_blocking_count(), n + 3);
    memset(path, 'x', sizeof(path)); /* a long path keeps its end */
    memcpy(path + sizeof(path) - 5, "/end", 5);
    first = vp_blocking_begin(VP_BLOCKING_FILE, "opening", path, -1);
    assert_true(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    snprintf(text, sizeof(text), "%s", call.text);
    assert_string_equal(text + strlen(text) - 4, "/end");
    vp_blocking_end(first);
}

/* Begins more calls at once than the table holds. */
static void test_many_blocking_calls(void **state)
{
    int calls[100];
    int64_t n = vp_blocking_count();
    struct vp_blocking call;

    (void)state;
    for (int i = 0; i < 100; i++)
        calls[i] = vp_blocking_begin(VP_BLOCKING_FILE, "reading", "/x", -1);
    assert_true(vp_blocking_longest(VP_BLOCKING_FILE, &call));
    for (int i = 0; i < 100; i++)
        vp_blocking_end(calls[i]);
    assert_int_equal(vp_blocking_count(), n + 100);
    assert_false(vp_blocking_longest(VP_BLOCKING_FILE, &call));
}

static void test_cores(void **state)
{
    static const struct {
        int64_t ran, delayed, ns;
        bool starved;
    } cases[] = {
        { 10, 90, 100, true }, { 10, 51, 100, true },  { 10, 50, 100, false },
        { 30, 61, 100, true }, { 30, 60, 100, false }, { 100, 0, 100, false },
        { 0, 0, 100, false },  { 0, -50, 100, false }, { 10, 300, 100, true },
    };
    struct vp_cores before = { 7, 1000 }, now = vp_cores_read();

    (void)state;
    assert_true(now.ran_ns > 0 && now.delayed_ns >= 0);
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        /* A hundredth of the shortest time that is enough evidence. */
        const int64_t unit = VP_CORES_EVIDENCE_NS / 100;

        now.ran_ns = before.ran_ns + cases[i].ran * unit;
        now.delayed_ns = before.delayed_ns + cases[i].delayed * unit;
        assert_int_equal(vp_cores_starved(&before, &now, cases[i].ns * unit),
                         cases[i].starved);
        assert_false(vp_cores_starved(&before, &now, cases[i].ns * unit - 1));
    }
}

/* The job clock counts at most 400 ms between two ticks; more than a second
 * between them is a gap. */
static void test_job_clock(void **state)
{
    static const struct {
        int64_t passed_ms, counted_ms;
        bool gap;
    } cases[] = {
        { 0, 0, false },     { 1, 1, false },     { 200, 200, false },
        { 400, 400, false }, { 401, 400, false }, { 1000, 400, false },
        { 1001, 400, true }, { 5000, 400, true }, { 86400000, 400, true },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        struct vp_job_clock clock = { 0 };
        int64_t start = 7000 * MS, now = start + cases[i].passed_ms * MS;

        assert_false(vp_job_clock_tick(&clock, start)); /* starts the clock */
        assert_int_equal(clock.ns, 0);
        assert_int_equal(vp_job_clock_tick(&clock, now), cases[i].gap);
        assert_int_equal(clock.ns, cases[i].counted_ms * MS);
        assert_int_equal(clock.resumed_ns, cases[i].gap ? now : 0);
        assert_false(vp_job_clock_tick(&clock, now + 10 * MS));
        assert_int_equal(clock.ns, (cases[i].counted_ms + 10) * MS);
    }
}

static void test_limits(void **state)
{
    struct vp_limit now = VP_LIMIT_NOW, never = VP_LIMIT_NEVER, limit;
    int64_t start;

    (void)state;
    assert_true(vp_limit_is_over(&now));
    for (int i = 0; i < 3; i++)
        assert_false(vp_limit_is_over_at(&never, INT64_MAX / 4 * i + 1));
    limit = vp_limit_ms(INT64_MAX / 1000);
    assert_int_equal(limit.length_ns, INT64_MAX);
    limit = vp_limit_ms(300);
    start = limit.clock.seen_ns;
    assert_false(vp_limit_is_over_at(&limit, start + 200 * MS));
    assert_int_equal(vp_limit_left_ns(&limit), 100 * MS);
    assert_false(vp_limit_is_over_at(&limit, start + 299 * MS));
    assert_true(vp_limit_is_over_at(&limit, start + 300 * MS));
    assert_int_equal(vp_limit_left_ns(&limit), 0);
}

/* The process is frozen for 5 s when 2.9 s of a limit of 3 s have passed. */
static void test_a_frozen_wait_starts_anew(void **state)
{
    struct vp_limit limit = vp_limit_ms(3000);
    int64_t at = limit.clock.seen_ns;

    (void)state;
    for (int i = 0; i < 29; i++)
        assert_false(vp_limit_is_over_at(&limit, at += 100 * MS));
    assert_false(vp_limit_is_over_at(&limit, at += 5000 * MS));
    assert_int_equal(limit.clock.resumed_ns, at);
    for (int i = 0; i < 29; i++)
        assert_false(vp_limit_is_over_at(&limit, at += 100 * MS));
    assert_true(vp_limit_is_over_at(&limit, at + 100 * MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_blocking_calls),
        cmocka_unit_test(test_many_blocking_calls),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_job_clock),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_frozen_wait_starts_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
