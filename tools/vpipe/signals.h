/* Signals that stop or suspend vpipe. The state is global: one per process. */
#ifndef VP_TOOLS_SIGNALS_H
#define VP_TOOLS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* In both roles the first of SIGINT, SIGTERM, SIGHUP and SIGUSR1 requests a
 * clean stop, and so do SIGXCPU and SIGPIPE. A second one: */
enum signals_role {
    SIGNALS_OF_ONE,      /* ends this process */
    SIGNALS_OF_LAUNCHER, /* is counted: ranks must be ended first */
};

/* Installs the handlers. */
void signals_catch(enum signals_role role);
/* Returns the number of stop requests so far: 0 or 1, in a launcher up to 2. */
const volatile sig_atomic_t *signals_stop(void);
/* Has the effect of a first signal. */
void signals_stop_cleanly(void);
/* Called when all work is done and saved: from then on a signal ends the
 * process at once with `exit_status` and prints nothing. Needed because mpirun
 * sends SIGTERM to ranks that exit after another one has exited with a status
 * other than 0. */
void signals_work_is_over(int exit_status);
/* Makes the first signal print "stopping after this `unit`, ..." on stdout. */
void signals_answer(const char *unit);
/* Returns true after SIGPIPE: the reader of the output has gone. */
bool signals_reader_has_gone(void);

/* Ctrl-Z. SIGTSTP stops a process that is alone by its default action. A
 * launcher catches it, stops its ranks, and then itself by
 * signals_suspend(). */
void signals_catch_suspension(bool on);
/* Returns a flag that is 1 after a SIGTSTP that was caught; the caller resets
 * it. */
volatile sig_atomic_t *signals_suspended(void);
/* Stops this process; returns when it is continued. */
void signals_suspend(void *ctx);

#endif
