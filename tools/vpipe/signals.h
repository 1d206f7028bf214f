/* Signals that ask `vpipe train` to stop or to pause. One process has one set of
 * them. */
#ifndef VP_TOOLS_SIGNALS_H
#define VP_TOOLS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* In both, the first of INT, TERM, HUP and USR1 asks for a clean stop, and so do
 * SIGXCPU and SIGPIPE. A second one: */
enum signals_role {
    SIGNALS_OF_ONE,      /* ends this process */
    SIGNALS_OF_LAUNCHER, /* counts: other processes must be ended first */
};

void signals_catch(enum signals_role role);
/* How many have asked to stop: 0, 1, and of a launcher 2. */
const volatile sig_atomic_t *signals_stop(void);
/* Counts as the first signal. */
void signals_stop_cleanly(void);
/* The work is over and saved: from now on a signal ends the process at once with
 * `exit_status` and prints nothing. mpirun sends SIGTERM to ranks that are slow to
 * exit when another one has exited with a status that is not 0. */
void signals_work_is_over(int exit_status);
/* Lets the first signal be answered on stdout: "stopping after this `unit`". */
void signals_answer(const char *unit);
/* SIGPIPE came: the reader of the output has gone. */
bool signals_reader_has_gone(void);

/* Ctrl-Z. A process alone is stopped by SIGTSTP as any other. One that has
 * started others catches it, stops them, and then itself by signals_suspend(). */
void signals_catch_suspension(bool on);
volatile sig_atomic_t *signals_suspended(void);
void signals_suspend(void *ctx);

#endif
