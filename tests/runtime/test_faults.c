/* A stalled rank, a failing action or a lost message in a running pipeline
 * always ends the run within the time limit, and the message names it. */
#include "lib/trainlib.h"

#include "base/clock.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time limits of the watchdog. On a busy machine a rank that waits for a core
 * may look stuck, so a trial with an unexpected diagnosis is repeated with
 * twice the time, up to MAX_TIMEOUT_MS. */
enum { TIMEOUT_MS = 250, MAX_TIMEOUT_MS = 4000 };

enum { N_TRIALS = 100, N_WORKERS = 4 };

static int rand_at(int trial, int what, int n)
{
    struct vp_rng4 r = vp_rng(1, VP_RNG_TEST, 2, (uint32_t)trial,
                              (uint32_t)what, 0);

    return (int)vp_rng_below(r.v[0], (uint32_t)n);
}

/* One fault at a random action of `rank`: the action after `countdown` others.
 * Only sends count for VP_FAULT_DROP. */
struct trap {
    int trial;
    enum vp_fault fault;
    int rank, countdown;
    bool sprung;
    struct vp_action action;
};

static bool is_send(const struct vp_action *action)
{
    return action->kind == VP_ACTION_SEND_ACT ||
           action->kind == VP_ACTION_SEND_GRAD;
}

static enum vp_fault spring(void *ctx, int rank, const struct vp_action *action)
{
    struct trap *trap = ctx;

    if (rank != trap->rank || trap->sprung ||
        (trap->fault == VP_FAULT_DROP && !is_send(action)) ||
        trap->countdown-- > 0)
        return VP_FAULT_NONE;
    trap->sprung = true;
    trap->action = *action;
    return trap->fault;
}

static const int partition[] = { 2, 1, 2 };

/* Error messages use the user's number of a rank, which may differ from its
 * place in the schedule. */
static const int numbers[] = { 2, 0, 1 };

static int number_of(int trial, int rank)
{
    return trial % 3 == 0 ? numbers[rank] : rank;
}

static struct setup three_stages(int trial)
{
    static const char *const schedules[] = { "1f1b", "pipedream", "zb-h1",
                                             "gpipe" };
    struct setup setup = usual;

    setup.schedule = schedules[trial % 4];
    setup.n_stages = 3;
    setup.partition = partition;
    setup.tied = false;
    setup.threads = 1;
    setup.accumulation = 6;
    setup.rank_numbers = trial % 3 == 0 ? numbers : NULL;
    return setup;
}

/* Trains until the fault ends the run. Returns the status, and the message in
 * `err`. */
static enum vp_status run_into(struct trap *trap, int limit_ms,
                               struct vp_err *err)
{
    struct setup setup = three_stages(trap->trial);
    int64_t start = vp_clock_ns();
    enum vp_status st;
    struct run run;

    setup.fault = spring;
    setup.fault_ctx = trap;
    setup.timeout_ms = limit_ms;
    if (run_create(&run, &setup, 0, err) != VP_OK)
        fail_msg("%s", err->text);
    st = vp_trainer_run(run.trainer, 12, NULL, NULL, err);
    run_free(&run);
    /* The run must not hang. 30 s is the watchdog's time plus delays of a busy
     * machine. */
    assert_true(vp_clock_seconds(start, vp_clock_ns()) < 30.0);
    return st;
}

/* Writes the text that the watchdog should report for a trap that has
 * sprung. */
typedef void (*describe_fn)(const struct trap *trap, char *out, size_t n);

static void check_watchdog(const struct trap *trap, describe_fn fn)
{
    int trial = trap->trial;

    for (int limit_ms = TIMEOUT_MS;; limit_ms *= 2) {
        struct trap sprung = *trap;
        struct vp_err err = { .text = "" };
        enum vp_status st = run_into(&sprung, limit_ms, &err);
        char want[160];

        fn(&sprung, want, sizeof(want));
        if (st == VP_ERR_TIMEOUT && sprung.sprung && strstr(err.text, want))
            return;
        if (limit_ms >= MAX_TIMEOUT_MS)
            fail_msg("trial %d, status %d: wanted '%s' in:\n%s", trial, st,
                     want, err.text);
    }
}

static void describe_stall(const struct trap *trap, char *out, size_t n)
{
    char text[64];

    vp_action_print(&trap->action, text, sizeof(text));
    snprintf(out, n, "rank %d is stuck: in %s, stage %d, minibatch %d",
             number_of(trap->trial, trap->rank), text, trap->action.stage,
             trap->action.mb);
}

/* Runs all trials in N_WORKERS processes in parallel, because a trial spends
 * most of its time waiting for the watchdog. */
static void run_trials(void (*check)(int trial))
{
    pid_t workers[N_WORKERS];
    int n_failed = 0;

    fflush(NULL);
    for (int w = 0; w < N_WORKERS; w++) {
        workers[w] = fork();
        assert_true(workers[w] >= 0);
        if (workers[w] > 0)
            continue;
        setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failure ends the worker */
        for (int trial = w; trial < N_TRIALS; trial += N_WORKERS)
            check(trial);
        exit(0); /* unlike _exit(), this runs LeakSanitizer */
    }
    for (int w = 0; w < N_WORKERS; w++) {
        int status;

        assert_int_equal(waitpid(workers[w], &status, 0), workers[w]);
        n_failed += status != 0;
    }
    assert_int_equal(n_failed, 0);
}

static void check_stall(int trial)
{
    struct trap trap = { .trial = trial,
                         .fault = VP_FAULT_STALL,
                         .rank = rand_at(trial, 0, 3),
                         .countdown = rand_at(trial, 1, 30) };

    check_watchdog(&trap, describe_stall);
}

static void a_stalled_rank_is_named(void **state)
{
    (void)state;
    run_trials(check_stall);
}

static void describe_loss(const struct trap *trap, char *out, size_t n)
{
    snprintf(out, n,
             "minibatch %d was sent by rank %d and never reached rank %d",
             trap->action.mb, number_of(trap->trial, trap->rank),
             number_of(trap->trial, trap->action.peer));
}

static void check_loss(int trial)
{
    struct trap trap = { .trial = trial,
                         .fault = VP_FAULT_DROP,
                         .rank = rand_at(trial, 0, 3),
                         .countdown = rand_at(trial, 1, 5) };

    check_watchdog(&trap, describe_loss);
}

static void a_lost_message_is_named(void **state)
{
    (void)state;
    run_trials(check_loss);
}

static void an_error_stops_all_ranks(void **state)
{
    (void)state;
    for (int trial = 0; trial < N_TRIALS; trial++) {
        struct trap trap = { .trial = trial,
                             .fault = VP_FAULT_ERROR,
                             .rank = rand_at(trial, 0, 3),
                             .countdown = rand_at(trial, 1, 30) };
        struct vp_err err = { .text = "" };
        char text[64], want[160];

        /* The failing action ends the run, long before the watchdog would. */
        assert_int_equal(run_into(&trap, 20000, &err), VP_ERR_IO);
        assert_true(trap.sprung);
        vp_action_print(&trap.action, text, sizeof(text));
        snprintf(want, sizeof(want), "rank %d, stage %d, minibatch %d: %s",
                 number_of(trial, trap.rank), trap.action.stage, trap.action.mb,
                 text);
        if (!strstr(err.text, want))
            fail_msg("wanted '%s' in:\n%s", want, err.text);
    }
}

/* A blackbox can be read after its rank has died, and uses the user's numbers
 * of ranks: rank 1 of the schedule exchanges messages with ranks 0 and 2, which
 * the user calls 2 and 1. */
static void a_blackbox_has_the_users_numbers(void **state)
{
    static struct vp_blackbox blackbox;
    struct vp_blackbox *blackboxes[3] = { NULL, &blackbox, NULL };
    struct setup setup = three_stages(0);
    struct vp_err err = { .text = "" };
    struct vp_action action;
    int n_peers[3] = { 0 };
    struct run run;

    (void)state;
    setup.blackboxes = blackboxes;
    if (run_create(&run, &setup, 0, &err) != VP_OK ||
        vp_trainer_run(run.trainer, 2, NULL, NULL, &err) != VP_OK)
        fail_msg("%s", err.text);
    run_free(&run);
    for (int64_t n = vp_blackbox_read(&blackbox).n_actions,
                 i = n - VP_BLACKBOX_LAST;
         i < n; i++)
        if (vp_blackbox_last(&blackbox, i, &action) && action.peer >= 0)
            n_peers[action.peer]++;
    assert_int_equal(n_peers[numbers[1]], 0);
    assert_true(n_peers[numbers[0]] > 0 && n_peers[numbers[2]] > 0);
}

/* Trains a pipeline in which copies of swapped values of stage 0 take 4 s. */
static enum vp_status run_late_copies(int limit_ms, struct vp_err *err)
{
    static const double first[] = { 1.0, 0.0, 0.0 };
    struct setup setup = three_stages(7); /* 7 selects gpipe */
    enum vp_status st;
    struct run run;

    setup.swap_ratios = first;
    setup.swap_delay_us = 4000000;
    setup.timeout_ms = limit_ms;
    if (run_create(&run, &setup, 0, err) != VP_OK)
        fail_msg("%s", err->text);
    st = vp_trainer_run(run.trainer, 12, NULL, NULL, err);
    run_free(&run);
    return st;
}

/* The message names the rank that waits for its own copy, not the ranks that
 * wait for messages of that rank. */
static void a_late_copy_is_named(void **state)
{
    (void)state;
    for (int limit_ms = TIMEOUT_MS;; limit_ms *= 2) {
        struct vp_err err = { .text = "" };

        if (run_late_copies(limit_ms, &err) == VP_ERR_TIMEOUT &&
            strstr(err.text, "in 0SWAP_") &&
            strstr(err.text, ", waits for a copy of swapped values"))
            return;
        if (limit_ms >= MAX_TIMEOUT_MS / 4)
            fail_msg("%s", err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stalled_rank_is_named),
        cmocka_unit_test(a_lost_message_is_named),
        cmocka_unit_test(a_late_copy_is_named),
        cmocka_unit_test(an_error_stops_all_ranks),
        cmocka_unit_test(a_blackbox_has_the_users_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
