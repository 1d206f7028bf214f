/* Writes output.log.<rank> in the format of the original vPipe, for programs
 * that read its logs. One file per rank, with the user's number of the rank.
 *
 * Rules of the original: Steps of an epoch are minibatches. Times of the last
 * stage are printed after the first 5 print_frequency minibatches of an epoch;
 * Time is per minibatch. In sync_mode bsp print_frequency is rounded down to
 * whole groups. Memory is in units of 1e9 bytes, allocated and reserved, which
 * are equal here. Prec@1 and Prec@5, at the end of an evaluation, are per cent
 * of all its predictions. Differences from the original: under a loss scale a
 * line ends with its value and the number of skipped updates; a loss without
 * any label is "-", and such an evaluation has no line with Prec.
 *
 * Three kinds of lines are those that guides to the original show:
 *   [Rank 0] Stage: 0, Rank in stage: 0
 *   Training...
 *   Epoch 0, Iteration 100, Loss: 8.3421
 * The last kind is in the log of every rank: for the first step of an epoch,
 * every print_frequency minibatches from there, and for the last step of an
 * epoch and of the run. An iteration is a minibatch, counted from 0 in its
 * epoch; in bsp it is the first minibatch of a group, and the loss is that of
 * the group. */
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
    int64_t group;          /* minibatches per step */

    int64_t step;       /* last reported step */
    double epoch_start; /* seconds since 1970 */
    double measured;    /* seconds of the epoch after its warm-up ... */
    double interval;    /* ... and since the last line of the last stage */
    int64_t n_measured, n_interval; /* minibatches in these */
    double time_sum;                /* sum of the times printed in the epoch */
    int64_t n_times;
    double loss_sum; /* sum over the epoch's steps that have a loss */
    int64_t n_losses;
};

/* Opens the files of a run in `folder`; appends to those that exist. Borrows
 * `folder` and `summary`. */
enum vp_status vp_log_open(struct vp_log *log, const struct vp_config *config,
                           const struct vp_run_summary *summary,
                           const char *folder, struct vp_err *err);
void vp_log_close(struct vp_log *log);

/* The functions below do nothing if the log is not open. */

enum vp_status vp_log_step(struct vp_log *log,
                           const struct vp_step_report *report,
                           struct vp_err *err);
/* Logs that the checkpoint of `step` is on disk. */
enum vp_status vp_log_saved(struct vp_log *log, int64_t step,
                            struct vp_err *err);
/* Logs that `i` of `n` batches were evaluated in `seconds` with the sums
 * `score`. */
enum vp_status vp_log_eval(struct vp_log *log, int64_t i, int64_t n,
                           double seconds, const struct vp_score *score,
                           struct vp_err *err);
/* Appends any other line to the log of one rank of the schedule. */
enum vp_status vp_log_line(struct vp_log *log, int rank, const char *line,
                           struct vp_err *err);

#endif
