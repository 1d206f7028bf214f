/* Diagnoses are printed completely: state of a process, table of ranks, one
 * line for a rank's own error, and a shortened table for many ranks. */
#include "base/blocking.h"
#include "base/clock.h"
#include "job/diagnosis.h"
#include "lib/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_vitals(void **state)
{
    int64_t now = vp_clock_ns();
    struct vp_vitals vitals;
    int file, peers;

    (void)state;
    vp_job_phase_set(VP_JOB_PHASE_DATA, "/data");
    vitals = vp_vitals_read(now, 0);
    assert_string_equal(vitals.text, "/data");
    assert_int_equal(vitals.call_ms, 0);
    assert_int_equal(vitals.wait_ms, 0);
    assert_int_equal(vitals.n_calls, vp_blocking_count());
    file = vp_blocking_begin(VP_BLOCKING_FILE, "reading", "/data/x", -1);
    vitals = vp_vitals_read(vp_clock_ns(), 0);
    assert_true(vitals.call_ms >= 1);
    assert_string_equal(vitals.text, "/data"); /* the call is too recent */
    now = vp_clock_ns() + 4 * SECOND;
    peers = vp_blocking_begin(VP_BLOCKING_PEERS, "waiting", NULL, -1);
    vitals = vp_vitals_read(now, 0);
    assert_true(vitals.call_ms >= 4000 && vitals.wait_ms >= 3000);
    assert_string_equal(vitals.text, "reading /data/x");
    /* The process was frozen until a second ago. */
    vitals = vp_vitals_read(now, now - SECOND);
    assert_int_equal(vitals.call_ms, 1001);
    assert_int_equal(vitals.wait_ms, 1001);
    vp_blocking_end(file);
    vp_blocking_end(peers);
    assert_int_equal(vp_job_phase_get(NULL), VP_JOB_PHASE_DATA);
    vp_job_phase_set(VP_JOB_PHASE_START, NULL);
    assert_string_equal(vp_vitals_read(now, 0).text, "");
}

/* The table names the culprit first and then the other ranks. */
static void test_the_screen(void **state)
{
    static const struct scenario dead = {
        .n_ranks = 3,
        .hosts = "aab",
        .events = { { 1, 0, "beat train 0 12 RECV_GRAD 0 3 1 0 250 250" },
                    { 1, 1, "beat train 0 11 B 1 3 0 0 40 0" },
                    { 1, 2, "beat train 0 13 UPDATE 2 0 -1 0 1200 100" },
                    { 1.1, 1, LOST } },
    };
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 3, 10, 0), VP_OK);
    scenario_arrive(&roster, &dead);
    for (int i = 0; i < 4; i++)
        scenario_happen(&roster, &dead.events[i]);
    assert_int_equal(vp_roster_judge(&roster, 2 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    vp_diagnosis_print(&roster, &diagnosis, 2 * SECOND, &err);
    assert_string_equal(
        err.text,
        "rank 1 on host a is dead: it exited without a last message; last seen "
        "in 1B3, stage 1, minibatch 3\n"
        "  rank 1 (a, pid 101): 1B3, stage 1, minibatch 3 for 0.0 s, "
        "computes; 11 actions done; dead\n"
        "  rank 0 (a, pid 100): 0RECV_GRAD3, stage 0, minibatch 3 for 0.2 s, "
        "waits for rank 1; 12 actions done\n"
        "  rank 2 (b, pid 102): 2UPDATE0, stage 2, minibatch 0 for 1.2 s, "
        "waits for the others; 13 actions done");
    vp_roster_release(&roster);
}

/* The error that a rank reports itself is one line, without a table. */
static void test_an_error_is_one_line(void **state)
{
    static const struct scenario failed = {
        .n_ranks = 2,
        .hosts = "ab",
        .events = { { 1, 0, RUNS },
                    { 1, 1, "word failed 2 disk full; free some space" } },
    };
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 2, 10, 0), VP_OK);
    scenario_arrive(&roster, &failed);
    for (int i = 0; i < 2; i++)
        scenario_happen(&roster, &failed.events[i]);
    assert_int_equal(vp_roster_judge(&roster, 2 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    vp_diagnosis_print(&roster, &diagnosis, 2 * SECOND, &err);
    assert_string_equal(err.text, "rank 1 on host b failed: disk full; free "
                                  "some space");
    vp_roster_release(&roster);
}

static void test_many_ranks_fit(void **state)
{
    struct vp_message hello = { .kind = VP_MESSAGE_HELLO };
    struct vp_message beat;
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 128, 10, 0), VP_OK);
    assert_true(vp_message_parse(RUNS, &beat));
    for (int r = 0; r < 128; r++) {
        hello.hello = (struct vp_hello){ .rank = r, .pid = 1 + r, .host = "n" };
        vp_roster_hear(&roster, r, &hello, SECOND);
        vp_roster_hear(&roster, r, &beat, SECOND);
    }
    vp_roster_lose(&roster, 100, SECOND);
    assert_int_equal(vp_roster_judge(&roster, 2 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    vp_diagnosis_print(&roster, &diagnosis, 2 * SECOND, &err);
    assert_non_null(strstr(err.text, "rank 100 on host n is dead"));
    assert_non_null(strstr(err.text, "\n  and 104 more"));
    vp_roster_release(&roster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vitals),
        cmocka_unit_test(test_the_screen),
        cmocka_unit_test(test_an_error_is_one_line),
        cmocka_unit_test(test_many_ranks_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
