/* The watchdog thread does not call getenv(), which may crash beside
 * MPI_Init(). It ends a rank that waits for others later than a rank that hangs
 * by itself. */
#include "base/blocking.h"
#include "base/clock.h"
#include "job/job_phase.h"
#include "job/watchdog.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static pthread_t main_thread;
static atomic_int n_strange_calls; /* getenv() calls by other threads */
static atomic_int n_hangs;

/* Replaces libc's getenv(). */
char *getenv(const char *name)
{
    size_t n = strlen(name);

    if (main_thread && !pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&n_strange_calls, 1);
    for (char **at = environ; *at; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
            return *at + n + 1;
    return NULL;
}

static void on_hang(const char *line)
{
    assert_non_null(strstr(line, "reading data"));
    atomic_fetch_add(&n_hangs, 1);
}

/* The watchdog uses the limit from the environment, which it read before its
 * thread started. */
static void test_the_thread_reads_no_environment(void **state)
{
    const struct timespec pause = { .tv_nsec = 20000000 };
    struct vp_watchdog *watchdog;
    struct vp_err err;

    (void)state;
    main_thread = pthread_self();
    setenv(VP_JOB_PHASE_VARIABLE, "1", 1);
    vp_job_phase_set(VP_JOB_PHASE_DATA, "/data");
    assert_int_equal(vp_watchdog_start(1, on_hang, &watchdog, &err), VP_OK);
    unsetenv(VP_JOB_PHASE_VARIABLE);
    for (int i = 0; i < 1000 && atomic_load(&n_hangs) == 0; i++)
        nanosleep(&pause, NULL);
    vp_watchdog_stop(watchdog);
    assert_true(atomic_load(&n_hangs) > 0);
    assert_int_equal(atomic_load(&n_strange_calls), 0);
}

static atomic_llong wait_ended_ns; /* 0: not yet */

static void on_long_wait(const char *line)
{
    long long none = 0;

    assert_non_null(strstr(line, "look at what the other ranks do"));
    atomic_compare_exchange_strong(&wait_ended_ns, &none, vp_clock_ns());
}

/* A rank that hangs ends after 1 s, a rank that waits for others after 1.25
 * s. */
static void test_a_wait_may_last_longer(void **state)
{
    const struct timespec pause = { .tv_nsec = 20000000 };
    struct vp_watchdog *watchdog;
    int64_t start;
    struct vp_err err;
    int call;

    (void)state;
    setenv(VP_JOB_PHASE_VARIABLE, "1", 1);
    vp_job_phase_set(VP_JOB_PHASE_JOIN, NULL);
    start = vp_clock_ns();
    call = vp_blocking_begin(VP_BLOCKING_PEERS, "joining the other ranks", NULL,
                             -1);
    assert_int_equal(vp_watchdog_start(1, on_long_wait, &watchdog, &err),
                     VP_OK);
    for (int i = 0; i < 1000 && atomic_load(&wait_ended_ns) == 0; i++)
        nanosleep(&pause, NULL);
    vp_watchdog_stop(watchdog);
    vp_blocking_end(call);
    unsetenv(VP_JOB_PHASE_VARIABLE);
    assert_true(atomic_load(&wait_ended_ns) - start >= 1249000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_thread_reads_no_environment),
        cmocka_unit_test(test_a_wait_may_last_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
