/* Runs a job whose ranks are processes: starts them with mpirun, supervises
 * them, and restarts them after a failure that another attempt can get past. */
#ifndef VP_RUN_LAUNCHER_H
#define VP_RUN_LAUNCHER_H

#include "config/config.h"

#include <signal.h>
#include <stdbool.h>

struct vp_launch_options {
    /* Arguments of a rank after "vpipe", without --output and --resume. The
     * second one is the configuration. If another configuration replaces it,
     * the arguments after it are left out, except the last `n_kept`. */
    const char *const *args;
    int n_args;
    int n_kept;
    /* Ranks write no run folder and get no --output; files of the launcher are
     * in a temporary folder. `output`, `resume` and `restarts` must not be
     * set. */
    bool no_folder;
    const char *output; /* run folder; NULL: <log_directory>/<time> */
    const char *resume; /* NULL: a new run */
    int restarts;       /* largest number of restarts */
    int output_fd;      /* receives the standard output of the ranks */
    const volatile sig_atomic_t *stop; /* number of stop signals so far */
    /* Set by SIGTSTP: the ranks are stopped, then `suspend` stops this process,
     * and when it returns the ranks continue. NULL: never. */
    volatile sig_atomic_t *suspended;
    void (*suspend)(void *ctx);
    void *ctx;
    void (*notice)(void *ctx, const char *line);
    /* For lines about work that may be lost: to be shown even if notices are
     * not. */
    void (*warning)(void *ctx, const char *line);
    /* An attempt failed and another one follows; `screen` is the report. */
    void (*failed)(void *ctx, const char *screen);
};

/* Returns VP_OK; VP_ERR_INTERRUPTED after a clean stop (with a line in `err` if
 * it stopped because the reader of its output has closed it); or an error with
 * a report of one screen on the rank at fault. All processes have ended when it
 * returns. */
enum vp_status vp_launch(const struct vp_config *config,
                         const struct vp_launch_options *options,
                         struct vp_err *err);

#endif
