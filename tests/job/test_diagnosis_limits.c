/* Time limits of a diagnosis are right for ranks that never connected, for
 * starts during which the supervisor was frozen, for job phases, for waiting
 * ranks and for huge times. */
#include "job/diagnosis.h"
#include "lib/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_who_never_came_is_named(void **state)
{
    struct vp_message hello = { .kind = VP_MESSAGE_HELLO };
    struct vp_message beat = { .kind = VP_MESSAGE_BEAT };
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 2, 10, 0), VP_OK);
    hello.hello = (struct vp_hello){ .rank = 0, .pid = 7, .host = "a" };
    vp_roster_hear(&roster, 0, &hello, SECOND);
    beat.beat.idle = true;
    for (int t = 2; t <= 60; t++)
        vp_roster_hear(&roster, 0, &beat, t * SECOND);
    assert_int_equal(vp_roster_judge(&roster, 59 * SECOND, &diagnosis),
                     VP_OUTCOME_NONE);
    assert_int_equal(vp_roster_judge(&roster, 60 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    assert_int_equal(diagnosis.cause, VP_CAUSE_ABSENT);
    assert_int_equal(diagnosis.rank, 1);
    vp_diagnosis_print(&roster, &diagnosis, 60 * SECOND, &err);
    assert_string_equal(err.text,
                        "rank 1 never connected; check its host, and the "
                        "messages of mpirun or srun\n"
                        "  rank 1: not connected\n"
                        "  rank 0 (a, pid 7): starting; 0 actions done");
    vp_roster_release(&roster);
}

/* Time before vp_roster_restart() does not count: the ranks get a full start
 * limit after the supervisor was frozen. */
static void test_a_frozen_start_starts_anew(void **state)
{
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 2, 10, 0), VP_OK);
    vp_roster_restart(&roster, 59 * SECOND);
    assert_int_equal(vp_roster_judge(&roster, 118 * SECOND, &diagnosis),
                     VP_OUTCOME_NONE);
    assert_int_equal(vp_roster_judge(&roster, 119 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    assert_int_equal(diagnosis.cause, VP_CAUSE_ABSENT);
    /* After mpirun has ended there is no new start limit. */
    roster.start_ns = VP_ROSTER_ENDED;
    vp_roster_restart(&roster, 119 * SECOND);
    assert_int_equal(vp_roster_judge(&roster, 120 * SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    vp_roster_release(&roster);
}

/* A job phase lasts at least a minute, saving five minutes; the environment may
 * set another limit. */
static void test_phases_have_limits(void **state)
{
    (void)state;
    unsetenv(VP_JOB_PHASE_VARIABLE);
    for (int d = 0; d < VP_JOB_PHASE_COUNT; d++) {
        enum vp_job_phase phase = (enum vp_job_phase)d;
        int64_t least = phase == VP_JOB_PHASE_SAVE ? 300 * SECOND : 60 * SECOND;

        if (phase == VP_JOB_PHASE_TRAIN) {
            assert_int_equal(vp_job_phase_limit_ns(phase, SECOND), INT64_MAX);
            continue;
        }
        assert_int_equal(vp_job_phase_limit_ns(phase, SECOND), least);
        assert_int_equal(vp_job_phase_limit_ns(phase, 600 * SECOND),
                         600 * SECOND);
        setenv(VP_JOB_PHASE_VARIABLE, "3", 1);
        assert_int_equal(vp_job_phase_limit_ns(phase, SECOND), 3 * SECOND);
        setenv(VP_JOB_PHASE_VARIABLE, "x", 1);
        assert_int_equal(vp_job_phase_limit_ns(phase, SECOND), least);
        unsetenv(VP_JOB_PHASE_VARIABLE);
    }
}

/* The end of a wait for another rank counts as progress: the time limit starts
 * again. */
static void test_waiting_is_no_standstill(void **state)
{
    struct vp_vitals vitals = { .n_calls = 5, .ran_ms = 100 };
    struct vp_pace pace = { .phase = VP_JOB_PHASE_COUNT };

    (void)state;
    vp_pace_note(&pace, VP_JOB_PHASE_RESUME, &vitals, SECOND);
    vp_pace_note(&pace, VP_JOB_PHASE_RESUME, &vitals, 3 * SECOND);
    assert_int_equal(pace.moved_ns, SECOND);
    vitals.wait_ms = 9000;
    vp_pace_note(&pace, VP_JOB_PHASE_RESUME, &vitals, 12 * SECOND);
    vitals.wait_ms = 0;
    vp_pace_note(&pace, VP_JOB_PHASE_RESUME, &vitals, 13 * SECOND);
    assert_int_equal(pace.moved_ns, 12 * SECOND);
}

/* A rank may send any number as a time. */
static void test_huge_times(void **state)
{
    static const char *const lines[] = {
        "beat train 0 40 RECV_ACT 1 9 0 0 5 9223372036854775807",
        "beat train 0 40 F 1 9 0 0 9223372036854775807 0",
    };
    struct vp_roster roster;
    struct vp_diagnosis diagnosis;
    struct vp_message message;
    struct vp_err err;

    (void)state;
    assert_int_equal(vp_roster_init(&roster, 2, 10, 0), VP_OK);
    for (int r = 0; r < 2; r++) {
        message = (struct vp_message){ .kind = VP_MESSAGE_HELLO,
                                       .hello = { .host = "a" } };
        vp_roster_hear(&roster, r, &message, SECOND);
        assert_true(vp_message_parse(lines[r], &message));
        vp_roster_hear(&roster, r, &message, SECOND);
    }
    assert_int_equal(vp_roster_judge(&roster, SECOND, &diagnosis),
                     VP_OUTCOME_FAILED);
    assert_int_equal(diagnosis.cause, VP_CAUSE_STUCK);
    assert_int_equal(diagnosis.rank, 1);
    vp_diagnosis_print(&roster, &diagnosis, SECOND, &err);
    assert_non_null(strstr(err.text, "rank 1 on host a is stuck"));
    vp_roster_release(&roster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_never_came_is_named),
        cmocka_unit_test(test_a_frozen_start_starts_anew),
        cmocka_unit_test(test_phases_have_limits),
        cmocka_unit_test(test_waiting_is_no_standstill),
        cmocka_unit_test(test_huge_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
