/* A run that its caller drives: some steps, an evaluation, a checkpoint. The steps
 * are those of vp_run_train(). */
#ifndef VP_RUN_SESSION_H
#define VP_RUN_SESSION_H

#include "config/config.h"
#include "run/run_events.h"
#include "run/run_options.h"
#include "runtime/trainer/trainer.h"

struct vp_session;

/* One process, with options->driven. `config` and `events` are borrowed until the
 * session is closed. */
enum vp_status vp_session_open(const struct vp_config *config,
                               const struct vp_run_options *options,
                               const struct vp_run_events *events,
                               struct vp_session **out, struct vp_err *err);
/* Saves nothing. False, with nothing freed that the run borrows, if a rank did not
 * return: it may still use what `config` and `options` point to. */
bool vp_session_close(struct vp_session *session);

/* Trains `n` steps, or fewer if *options->stop becomes true; 0: all that are left.
 * VP_ERR_INVALID if fewer are left. With the last step a run that has a folder is
 * saved, and gets its trace. */
enum vp_status vp_session_run(struct vp_session *session, int64_t n,
                              struct vp_err *err);
/* Evaluates `n` held-out batches; 0: all. VP_ERR_INVALID: there are none. */
enum vp_status vp_session_evaluate(struct vp_session *session, int64_t n,
                                   double *loss_out, struct vp_err *err);
/* Writes the checkpoint <folder>/checkpoints/step-<n>, and waits until it is on
 * disk. NULL: the folder of the run. VP_ERR_INVALID for a folder that holds
 * checkpoints which this session did not write. */
enum vp_status vp_session_save(struct vp_session *session, const char *folder,
                               struct vp_err *err);

int64_t vp_session_step(const struct vp_session *session);
const struct vp_trainer *vp_session_trainer(const struct vp_session *session);
const struct vp_graph *vp_session_graph(const struct vp_session *session);
/* The plan of the run as JSON, with its forecast, to be freed. VP_ERR_NOMEM. */
enum vp_status vp_session_plan(const struct vp_session *session,
                               char **text_out);

#endif
