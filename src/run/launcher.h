/* A job whose ranks are processes: starts them with mpirun, looks after them,
 * and starts them again after a failure that was not their own. */
#ifndef VP_RUN_LAUNCHER_H
#define VP_RUN_LAUNCHER_H

#include "config/config.h"

#include <signal.h>
#include <stdbool.h>

struct vp_launch_options {
    /* A rank's arguments after "vpipe", without --output and --resume. The
     * second one is the configuration; the rest may be left out if another
     * configuration takes its place. */
    const char *const *args;
    int n_args;
    int n_kept; /* of the last arguments, which may not be left out */
    /* Ranks write no run folder and are not given --output: files of the
     * launcher are in a temporary folder. `output`, `resume` and `restarts` are
     * not set. */
    bool no_folder;
    const char *output; /* run folder; NULL: <log_directory>/<time> */
    const char *resume; /* NULL: from the start */
    int restarts;       /* at most */
    int output_fd;      /* for what the ranks print */
    const volatile sig_atomic_t *stop; /* signals so far, that count */
    /* Set by SIGTSTP: the ranks are stopped, then `suspend` stops this process,
     * and when it returns the ranks go on. NULL: never. */
    volatile sig_atomic_t *suspended;
    void (*suspend)(void *ctx);
    void *ctx;
    void (*notice)(void *ctx, const char *line);
    /* Work may be lost: to be shown whatever else is not. */
    void (*warning)(void *ctx, const char *line);
    /* An attempt that another one follows: a screen. */
    void (*failed)(void *ctx, const char *screen);
};

/* VP_OK, VP_ERR_INTERRUPTED after a clean stop (with a line if it stopped because
 * the output is not read any more), or an error with one screen about the
 * culprit. No process is left behind. */
enum vp_status vp_launch(const struct vp_config *config,
                         const struct vp_launch_options *options,
                         struct vp_err *err);

#endif
