/* Runs a supervisor in a child process of the first rank. */
#include "job/supervisor_child.h"

#include "base/limit.h"
#include "job/processes.h"

#include <signal.h>
#include <unistd.h>

enum {
    LISTEN_MS = 100,
    REPORT_MS = 300, /* time for mpirun to print the report before ranks end */
    END_MS = 4000,   /* limit of vp_supervisor_end() */
    EXIT_MS = 30000, /* limit for ranks to exit after the job has ended */
};

enum vp_status vp_supervisor_child_open(const struct vp_config *config,
                                        struct vp_supervisor **out,
                                        struct vp_err *err)
{
    struct vp_supervisor_config supervisor = {
        .n_ranks = vp_config_n_ranks(config),
        .watchdog_seconds = config->watchdog_seconds,
        .local = vp_processes_are_here(),
        .interface = config->network_interface,
        /* Open MPI forwards Ctrl-Z as SIGSTOP to all ranks. */
        .by_hand = true,
    };

    return vp_supervisor_open(&supervisor, out, err);
}

/* Returns true if the parent is gone and no rank has connected: no rank can
 * have the address. */
static bool is_forgotten(const struct vp_supervisor *supervisor, pid_t parent)
{
    return getppid() != parent && vp_supervisor_n_came(supervisor) == 0;
}

/* Waits up to `ms` until all ranks have disconnected. */
static void wait_ms(struct vp_supervisor *supervisor, int ms)
{
    struct vp_limit limit = vp_limit_ms(ms);

    while (vp_supervisor_n_connected(supervisor) > 0 &&
           !vp_limit_is_over(&limit))
        vp_supervisor_rest(supervisor, LISTEN_MS);
}

void vp_supervisor_child_run(struct vp_supervisor *supervisor,
                             void (*report)(const char *screen))
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE };
    enum vp_outcome outcome = VP_OUTCOME_NONE;
    pid_t parent = getppid();
    struct vp_err screen;

    setsid(); /* signals to the parent's process group do not reach it */
    for (size_t i = 0; i < VP_COUNT_OF(signals); i++)
        signal(signals[i], SIG_IGN);
    while (outcome == VP_OUTCOME_NONE && !is_forgotten(supervisor, parent))
        outcome = vp_supervisor_listen(supervisor, LISTEN_MS);
    if (outcome == VP_OUTCOME_FAILED) {
        vp_supervisor_report(supervisor, 0, &screen);
        report(screen.text);
        wait_ms(supervisor, REPORT_MS);
    } else {
        wait_ms(supervisor, EXIT_MS);
    }
    vp_supervisor_end(supervisor, END_MS);
    vp_supervisor_close(supervisor);
}
