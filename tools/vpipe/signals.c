/* Handlers of signals that stop or suspend vpipe. */
#include "signals.h"

#include "base/clock.h"
#include "base/status.h"
#include "progress.h"
#include "tool.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Number of stop requests so far. */
static volatile sig_atomic_t stop;
static volatile sig_atomic_t reader_has_gone;
static _Atomic int64_t stop_ns;
/* Line that is printed for the first one; "": none. */
static char stop_answer[128];
static volatile sig_atomic_t work_is_over;
static volatile sig_atomic_t status_at_end;

const volatile sig_atomic_t *signals_stop(void)
{
    return &stop;
}

void signals_stop_cleanly(void)
{
    stop = 1;
}

void signals_work_is_over(int exit_status)
{
    status_at_end = exit_status;
    work_is_over = 1;
}

bool signals_reader_has_gone(void)
{
    return reader_has_gone;
}

void signals_answer(const char *unit)
{
    FILE *out = fmemopen(stop_answer, sizeof(stop_answer), "w");

    if (!out)
        return;
    tool_print(out, tool_line_width(stdout), 0,
               "stopping after this %s, then saving; a second signal ends it "
               "now\n",
               unit);
    fclose(out);
}

/* ---- Handlers ----------------------------------------------------------- */

static void end_by(int signal_number)
{
    static const char text[] = "ended by a second signal, before all was "
                               "saved\n";
    ssize_t ignored;

    progress_abandon();
    ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)ignored;
    signal(signal_number, SIG_DFL);
    raise(signal_number); /* delivered when this handler has returned */
}

/* Returns false for a signal within a second after the last one: a process and
 * its group may both be sent the same signal, and Slurm sends two. */
static bool is_new(void)
{
    int64_t now = vp_clock_ns(), before = atomic_load(&stop_ns);

    if (before && now - before < 1000000000)
        return false;
    return atomic_compare_exchange_strong(&stop_ns, &before, now);
}

static void on_signal(int signal_number)
{
    if (work_is_over)
        _exit(status_at_end);
    if (!is_new())
        return;
    if (stop) {
        end_by(signal_number);
        return;
    }
    stop = 1;
    if (stop_answer[0])
        progress_interject(stop_answer);
}

static void on_signal_to_all(int signal_number)
{
    (void)signal_number;
    if (is_new() && stop < 2)
        stop = stop + 1;
}

/* Handles SIGPIPE and SIGXCPU (ulimit -t), which come repeatedly: they request
 * a clean stop and never count as a second signal. */
static void on_limit(int signal_number)
{
    if (signal_number == SIGPIPE)
        reader_has_gone = 1;
    if (!stop)
        stop = 1;
}

void signals_catch(enum signals_role role)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    struct sigaction action = { .sa_handler = role == SIGNALS_OF_ONE
                                                  ? on_signal
                                                  : on_signal_to_all };

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < VP_COUNT_OF(signals); i++) {
        struct sigaction old;

        /* A signal that nohup or a shell ignores stays ignored. */
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    action.sa_handler = on_limit;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXCPU, &action, NULL);
}

/* ---- Ctrl-Z ------------------------------------------------------------- */

static volatile sig_atomic_t suspended;

volatile sig_atomic_t *signals_suspended(void)
{
    return &suspended;
}

static void on_suspend(int signal_number)
{
    (void)signal_number;
    suspended = 1;
}

/* If a shell without job control ignores SIGTSTP, it stays ignored. */
void signals_catch_suspension(bool on)
{
    struct sigaction action = { .sa_handler = on ? on_suspend : SIG_DFL,
                                .sa_flags = SA_RESTART };
    struct sigaction old;

    sigemptyset(&action.sa_mask);
    if (sigaction(SIGTSTP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGTSTP, &action, NULL);
}

/* Stops this process by the default action of SIGTSTP, so that the shell sees
 * it. */
void signals_suspend(void *ctx)
{
    (void)ctx;
    signals_catch_suspension(false);
    raise(SIGTSTP);
    signals_catch_suspension(true);
}
