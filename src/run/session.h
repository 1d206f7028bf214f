/* A run whose caller decides what happens next: some steps, an evaluation, a
 * checkpoint. Steps are the same as those of vp_run_train(). */
#ifndef VP_RUN_SESSION_H
#define VP_RUN_SESSION_H

#include "config/config.h"
#include "run/run_events.h"
#include "run/run_options.h"
#include "runtime/trainer/trainer.h"

struct vp_session;

/* Opens a session of one process; options->driven must be set. Borrows `config`
 * and `events` until the session is closed. */
enum vp_status vp_session_open(const struct vp_config *config,
                               const struct vp_run_options *options,
                               const struct vp_run_events *events,
                               struct vp_session **out, struct vp_err *err);
/* Does not save. Returns false if a rank did not return: it may still use what
 * `config` and `options` point to. */
bool vp_session_close(struct vp_session *session);

/* Trains `n` steps, or fewer if *options->stop becomes true; 0: all that are
 * left. VP_ERR_INVALID if fewer than `n` are left. After the last step, a run
 * that has a folder is saved, and its trace is written. */
enum vp_status vp_session_run(struct vp_session *session, int64_t n,
                              struct vp_err *err);
/* Evaluates `n` held-out batches; 0: all. VP_ERR_INVALID if there are none. */
enum vp_status vp_session_evaluate(struct vp_session *session, int64_t n,
                                   double *loss_out, struct vp_err *err);
/* Writes the checkpoint <folder>/checkpoints/step-<n>, and waits until it is on
 * disk. `folder` NULL: the run folder. VP_ERR_INVALID for a folder with
 * checkpoints that this session did not write. */
enum vp_status vp_session_save(struct vp_session *session, const char *folder,
                               struct vp_err *err);

int64_t vp_session_step(const struct vp_session *session);
const struct vp_trainer *vp_session_trainer(const struct vp_session *session);
const struct vp_graph *vp_session_graph(const struct vp_session *session);
/* Returns the plan of the run as JSON, with its forecast; the caller frees it.
 * Returns VP_OK or VP_ERR_NOMEM. */
enum vp_status vp_session_plan(const struct vp_session *session,
                               char **text_out);

#endif
