/* output.log.<rank>: what the original's ranks printed, for programs that read
 * its logs. One file per rank, named by the user's number of it.
 *
 * Rules of the original. Steps of an epoch are minibatches. The last stage is
 * timed from 5 print_frequency minibatches on; Time is per minibatch. In bsp
 * print_frequency is rounded down to whole groups. Memory is in units of 1e9
 * bytes, as allocated and as set aside, which is the same here. Prec@1 and
 * Prec@5, at the end of an evaluation, are per cent of all its predictions. Not
 * the original's: under a loss scale its value and the number of skipped updates
 * end a line; a loss is "-" where nothing has labels, and such an evaluation has
 * no line with Prec.
 *
 * Three kinds of lines are those that guides to the original show:
 *   [Rank 0] Stage: 0, Rank in stage: 0
 *   Training...
 *   Epoch 0, Iteration 100, Loss: 8.3421
 * The last kind is in the log of every rank: for the first step of an epoch, for
 * every print_frequency-th minibatch from there, and for the last step of an
 * epoch and of the run. An iteration is a minibatch, counted from 0 in its
 * epoch; in bsp it is the first one of a group, and the loss is that of the
 * group. */
#ifndef VP_RUN_LOG_H
#define VP_RUN_LOG_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/report.h"

#include <stdio.h>

struct vp_log {
    FILE **files; /* per rank of the schedule; NULL: closed */
    const struct vp_run_summary *summary;
    const char *folder;
    int64_t every, warm_up; /* minibatches */
    int64_t group;          /* minibatches of a step */

    int64_t step;       /* reported last */
    double epoch_start; /* seconds since 1970 */
    double measured;    /* seconds of the epoch after its warm-up ... */
    double interval;    /* ... and since the last line of the last stage */
    int64_t n_measured, n_interval; /* minibatches in these */
    double time_sum;                /* of the times printed in the epoch */
    int64_t n_times;
    double loss_sum; /* of the epoch's steps that have a loss */
    int64_t n_losses;
};

/* Opens the files of a run in `folder`; those that exist grow. Borrows `folder`
 * and `summary`. */
enum vp_status vp_log_open(struct vp_log *log, const struct vp_config *config,
                           const struct vp_run_summary *summary,
                           const char *folder, struct vp_err *err);
void vp_log_close(struct vp_log *log);

/* The rest does nothing to a log that is not open. */

enum vp_status vp_log_step(struct vp_log *log,
                           const struct vp_step_report *report,
                           struct vp_err *err);
/* The checkpoint of `step` is on disk. */
enum vp_status vp_log_saved(struct vp_log *log, int64_t step,
                            struct vp_err *err);
/* `i` of `n` batches were evaluated in `seconds`, with this score. */
enum vp_status vp_log_eval(struct vp_log *log, int64_t i, int64_t n,
                           double seconds, const struct vp_score *score,
                           struct vp_err *err);
/* A line of anything else, for one rank of the schedule. */
enum vp_status vp_log_line(struct vp_log *log, int rank, const char *line,
                           struct vp_err *err);

#endif
