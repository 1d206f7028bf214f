/* The start of a run prints one line for each phase that takes long, and none
 * for short phases or for training. */
#include "job/job_phase.h"
#include "phase_note.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs `act` between start and stop of a note, and returns the printed text. */
static void text_of(void (*act)(void), char *out, size_t n_bytes)
{
    FILE *file = tmpfile();
    struct phase_note *note;
    size_t n;

    assert_non_null(file);
    note = phase_note_start(file);
    assert_non_null(note);
    act();
    phase_note_stop(note);
    rewind(file);
    n = fread(out, 1, n_bytes - 1, file);
    out[n] = '\0';
    fclose(file);
}

static void stay(enum vp_job_phase phase, const char *about, unsigned us)
{
    vp_job_phase_set(phase, about);
    usleep(us);
}

static void long_phases(void)
{
    stay(VP_JOB_PHASE_DATA, "/data", 1700000);
    stay(VP_JOB_PHASE_RESUME, NULL, 400000);
    stay(VP_JOB_PHASE_PLAN, NULL, 1400000);
}

static void train(void)
{
    stay(VP_JOB_PHASE_TRAIN, NULL, 1400000);
}

static void a_long_phase_is_told_once(void **state)
{
    char text[256];

    (void)state;
    vp_job_phase_set(VP_JOB_PHASE_START, NULL);
    text_of(long_phases, text, sizeof(text));
    assert_string_equal(text, "start     reading data /data ...\n"
                              "start     making plans and buffers ...\n");
    text_of(train, text, sizeof(text));
    assert_string_equal(text, "");
    phase_note_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_phase_is_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
