/* Checkpoints of a run: the trainer's state in files that know blocks, never
 * stages, and the way back. */
#ifndef VP_LAUNCH_CHECKPOINT_H
#define VP_LAUNCH_CHECKPOINT_H

#include "comm/comm.h"
#include "launch/config.h"
#include "runtime/trainer.h"

/* ---- Saving ------------------------------------------------------------- */

struct vp_checkpoints;

/* A saver for vp_train_config, to be armed once the trainer exists. `world` is
 * that of several processes, or NULL: each of them saves what it has, the lead
 * commits, and the others need only finish. */
enum vp_status vp_checkpoints_create(const struct vp_config *config,
                                     struct vp_world *world,
                                     struct vp_checkpoints **out,
                                     struct vp_err *err);
const struct vp_saver *vp_checkpoints_saver(struct vp_checkpoints *checkpoints);
/* Several processes: all link, once their trainers exist, before the first of
 * them is armed. */
enum vp_status vp_checkpoints_link(struct vp_checkpoints *checkpoints,
                                   int n_blocks, struct vp_err *err);
/* Sets memory aside, if copies are made while training goes on, and clears <folder>/checkpoints of what a run that was
 * killed left there. Checkpoints after `step` are removed: the run will come to
 * them again. */
enum vp_status vp_checkpoints_arm(struct vp_checkpoints *checkpoints,
                                  struct vp_trainer *trainer,
                                  const struct vp_data *data,
                                  const char *folder, int64_t step,
                                  struct vp_err *err);
/* The saver has the state of the step that was just reported: writes it while
 * training goes on. `score` is an evaluation's loss, or NAN. */
enum vp_status vp_checkpoints_commit(struct vp_checkpoints *checkpoints,
                                     double score, struct vp_err *err);
/* Saves an idle trainer, unless that step is saved already, and waits until all
 * is on disk. Away from the lead: waits for what this process writes. */
enum vp_status vp_checkpoints_finish(struct vp_checkpoints *checkpoints,
                                     double score, struct vp_err *err);
/* The last step on disk; -1: none. */
int64_t vp_checkpoints_saved(struct vp_checkpoints *checkpoints);
void vp_checkpoints_free(struct vp_checkpoints *checkpoints);

/* ---- Going on ----------------------------------------------------------- */

struct vp_resume;

/* The folder that a run goes on in when no other is named, from what
 * vp_resume_open() takes: a run folder itself; that of a checkpoint if nothing
 * newer is there. VP_ERR_INVALID: another folder has to be named. */
enum vp_status vp_resume_folder(const char *path, char *out, size_t n,
                                struct vp_err *err);

typedef void (*vp_notice_fn)(void *ctx, const char *line);

/* Opens the newest valid checkpoint of a run folder, or the one that `path` is,
 * and checks that the configuration may go on from it. Notices: what was passed
 * over, and what will not be exact. */
enum vp_status vp_resume_open(const char *path, const struct vp_config *config,
                              const struct vp_graph *graph,
                              const struct vp_data *data, vp_notice_fn notice,
                              void *ctx, struct vp_resume **out,
                              struct vp_err *err);
const struct vp_loader *vp_resume_loader(const struct vp_resume *resume);
int64_t vp_resume_step(const struct vp_resume *resume);
void vp_resume_close(struct vp_resume *resume);

/* The keys that must be as they were, for the documentation; NULL after the
 * last. */
const char *vp_resume_fixed_key(int i);

#endif
