/* A training run: takes a configuration, writes a run folder and reports
 * events. */
#ifndef VP_RUN_RUN_H
#define VP_RUN_RUN_H

#include "base/status.h"
#include "config/config.h"
#include "run/run_events.h"
#include "run/run_options.h"

/* Runs the configuration. With several processes only the lead calls back and
 * writes the run folder's files; all return the same status, and the process
 * that failed first has the message. With forward_only: evaluates the held-out
 * data, at most num_minibatches of it, and reports the mean loss over
 * predictions by on_eval(); the run folder is created only if options->output
 * is given, and has no checkpoint. */
enum vp_status vp_run_train(const struct vp_config *config,
                            const struct vp_run_options *options,
                            const struct vp_run_events *events,
                            struct vp_err *err);

/* Sets up a run for run/session.h: one process, not a dry run. Borrows `config`
 * and `events` until vp_run_close(). */
struct vp_run_state; /* run/run_state.h */
enum vp_status vp_run_open(const struct vp_config *config,
                           const struct vp_run_options *options,
                           const struct vp_run_events *events,
                           struct vp_run_state **out, struct vp_err *err);
/* Returns false if a rank did not return: the borrowed objects are then still
 * in use. */
bool vp_run_close(struct vp_run_state *run);

#endif
