/* Checkpoints of a run: the trainer's state in files that know blocks, never
 * stages. */
#ifndef VP_RUN_CHECKPOINT_H
#define VP_RUN_CHECKPOINT_H

#include "ckpt/store.h"
#include "comm/comm.h"
#include "config/config.h"
#include "run/notice.h"
#include "runtime/trainer/trainer.h"

/* Steps between checkpoints, where an epoch has `steps_per_epoch`; 0: none
 * before the end. */
int64_t vp_checkpoint_steps(const struct vp_config *config,
                            int64_t steps_per_epoch);

struct vp_checkpoints;

/* A saver for vp_train_config, to be armed once the trainer exists, with a
 * checkpoint every `every` steps; 0: none before the end. `world` is that of
 * several processes, or NULL: each of them saves what it has, the lead commits,
 * and the others need only finish. */
enum vp_status vp_checkpoints_create(const struct vp_config *config,
                                     int64_t every, struct vp_world *world,
                                     struct vp_checkpoints **out,
                                     struct vp_err *err);
const struct vp_saver *vp_checkpoints_saver(struct vp_checkpoints *checkpoints);
/* Several processes: all link, once their trainers exist, before the first of
 * them is armed. */
enum vp_status vp_checkpoints_link(struct vp_checkpoints *checkpoints,
                                   int n_blocks, struct vp_err *err);
/* Allocates memory, if copies are made while training goes on, and clears
 * <folder>/checkpoints of what a run that was killed left there. `from` is the
 * checkpoint in that folder from which the run goes on; NULL: none. Newer ones
 * are set aside, see ckpt/store.h. */
enum vp_status vp_checkpoints_arm(struct vp_checkpoints *checkpoints,
                                  struct vp_trainer *trainer,
                                  const struct vp_data *data,
                                  const char *folder,
                                  const struct vp_ckpt_entry *from,
                                  struct vp_err *err);
/* The run has moved to another trainer, which is idle: from now on that one is
 * saved. Waits for a checkpoint that is being written, if its arrays are other
 * ones. */
enum vp_status vp_checkpoints_follow(struct vp_checkpoints *checkpoints,
                                     struct vp_trainer *trainer,
                                     struct vp_err *err);
/* Called before a checkpoint gets its name: what must be on disk by then. Set
 * before arming. */
void vp_checkpoints_before_publish(struct vp_checkpoints *checkpoints,
                                   enum vp_status (*fn)(void *ctx,
                                                        struct vp_err *err),
                                   void *ctx);
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

/* Warns about each checkpoint in the run folder `run` that was put aside when a
 * run was resumed. */
enum vp_status vp_checkpoints_warn_aside(const char *run, vp_notice_fn warn,
                                         void *ctx, struct vp_err *err);

#endif
