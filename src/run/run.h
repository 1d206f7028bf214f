/* A training run: configuration in, run folder and reports out. */
#ifndef VP_RUN_RUN_H
#define VP_RUN_RUN_H

#include "base/status.h"
#include "config/config.h"
#include "run/run_events.h"
#include "run/run_options.h"

/* Of several processes only the lead calls back and writes what is read; all
 * return the same status, and the one that failed first has the text.
 * With forward_only: the mean loss over predictions on the held-out data, at most
 * num_minibatches of it, by on_eval(); the run folder is made only if
 * options->output names one, and holds no checkpoint. */
enum vp_status vp_run_train(const struct vp_config *config,
                            const struct vp_run_options *options,
                            const struct vp_run_events *events,
                            struct vp_err *err);

/* A run that is set up, for run/session.h: one process, not a dry run. `config`
 * and `events` are borrowed until it is closed. */
struct vp_run_state; /* run/run_state.h */
enum vp_status vp_run_open(const struct vp_config *config,
                           const struct vp_run_options *options,
                           const struct vp_run_events *events,
                           struct vp_run_state **out, struct vp_err *err);
/* False, with what it borrows still in use, if a rank did not return. */
bool vp_run_close(struct vp_run_state *run);

#endif
