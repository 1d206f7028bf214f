/* Joins the processes of a job, and prints errors and reports of ranks. */
#include "ranks.h"

#include "job/supervisor_child.h"
#include "progress.h"
#include "signals.h"
#include "tool.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Environment variable for ranks: their output is shown on a terminal. */
#define TERMINAL_VARIABLE "VPIPE_TERMINAL"

/* ---- Printing ----------------------------------------------------------- */

void ranks_print_screen(const char *screen)
{
    fprintf(stderr, "%s\n", screen);
}

/* Uses write(), because the thread that hangs may have locked stdout and
 * stderr. */
void ranks_on_hang(const char *line)
{
    progress_abandon();
    if (write(STDERR_FILENO, line, strlen(line)) > 0)
        (void)!write(STDERR_FILENO, "\n", 1);
    _exit(TOOL_FAILED);
}

/* Processes that were started together usually have the same error. The first
 * one prints it at once; the others wait, because mpirun kills all when one
 * exits. A process that is still alive after the wait has an error of its
 * own. */
int ranks_refuse(const struct vp_err *err)
{
    enum { WAIT_SECONDS = 3 };
    int index = vp_processes_find().index;

    if (index == 0)
        return tool_usage_error("%s", err->text);
    if (sleep(WAIT_SECONDS) > 0 || !err->text[0])
        return TOOL_USAGE; /* a signal to end */
    return tool_usage_error("process %d: %s", index, err->text);
}

void ranks_pass_terminal_on(bool terminal)
{
    if (terminal)
        setenv(TERMINAL_VARIABLE, "1", 1);
}

void ranks_see_terminal(void)
{
    if (getenv(TERMINAL_VARIABLE))
        return;
    tool_ignore_terminal();
    setenv("NO_COLOR", "1", 1);
}

/* ---- Joining ------------------------------------------------------------ */

static void on_stop(void *ctx)
{
    (void)ctx;
    signals_stop_cleanly();
}

/* The exit status of this process if the supervisor ends it. */
static atomic_int end_status = TOOL_FAILED;

static void on_end(void *ctx, const char *why)
{
    (void)ctx;
    (void)why;
    _exit(atomic_load(&end_status));
}

/* Starts the supervisor in a child, which survives if this process is
 * killed. */
static enum vp_status start_supervisor(const struct vp_config *config,
                                       char *address, size_t n_bytes,
                                       struct vp_err *err)
{
    struct vp_supervisor *supervisor;
    pid_t pid;

    VP_TRY(vp_supervisor_child_open(config, &supervisor, err));
    snprintf(address, n_bytes, "%s", vp_supervisor_address(supervisor));
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        vp_supervisor_child_run(supervisor, ranks_print_screen);
        fflush(NULL);
        _exit(TOOL_OK);
    }
    if (pid < 0) {
        vp_supervisor_close(supervisor);
        return vp_err_set(err, VP_ERR_NOMEM, "starting a supervisor failed");
    }
    vp_supervisor_forget(supervisor);
    return VP_OK;
}

enum vp_status ranks_join(const struct vp_config *config,
                          const struct vp_processes *self,
                          struct vp_member *out, struct vp_err *err)
{
    struct vp_member_config member = {
        .config = config,
        .self = *self,
        .stop = signals_stop(),
        .on_stop = on_stop,
        .on_end = on_end,
        .start_supervisor = start_supervisor,
    };

    if (vp_member_is_one(self))
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    return vp_member_join(&member, out, err);
}

bool ranks_report(struct vp_member *member, enum vp_status status,
                  const struct vp_err *err)
{
    atomic_store(&end_status, tool_exit_status(status));
    return vp_member_report(member, status, err);
}
