/* Checkpoints of a run. Files hold the trainer's state per block, not per
 * stage, so that a run can be resumed with another partition. */
#ifndef VP_RUN_CHECKPOINT_H
#define VP_RUN_CHECKPOINT_H

#include "ckpt/store.h"
#include "comm/comm.h"
#include "config/config.h"
#include "run/notice.h"
#include "runtime/trainer/trainer.h"

/* Returns the number of steps between two checkpoints; an epoch has
 * `steps_per_epoch`. 0: only at the end of the run. */
int64_t vp_checkpoint_steps(const struct vp_config *config,
                            int64_t steps_per_epoch);

struct vp_checkpoints;

/* Creates a saver for vp_train_config that makes a checkpoint every `every`
 * steps (0: only at the end); to be armed once the trainer exists. `world`
 * connects several processes; NULL: one process. Each process saves its own
 * blocks, the lead commits, and the other processes only call
 * vp_checkpoints_finish(). Borrows `config` and `world`. */
enum vp_status vp_checkpoints_create(const struct vp_config *config,
                                     int64_t every, struct vp_world *world,
                                     struct vp_checkpoints **out,
                                     struct vp_err *err);
const struct vp_saver *vp_checkpoints_saver(struct vp_checkpoints *checkpoints);
/* Several processes: all call this once their trainers exist, before any of
 * them calls vp_checkpoints_arm(). One process: does nothing. */
enum vp_status vp_checkpoints_link(struct vp_checkpoints *checkpoints,
                                   int n_blocks, struct vp_err *err);
/* Allocates the snapshot if checkpoints are made during training, and removes
 * incomplete checkpoints of a killed run from <folder>/checkpoints. `from` is
 * the checkpoint in that folder that the run is resumed from; NULL: none. Newer
 * checkpoints are set aside, see ckpt/store.h. Borrows `trainer` and `data`. */
enum vp_status vp_checkpoints_arm(struct vp_checkpoints *checkpoints,
                                  struct vp_trainer *trainer,
                                  const struct vp_data *data,
                                  const char *folder,
                                  const struct vp_ckpt_entry *from,
                                  struct vp_err *err);
/* Saves `trainer`, which is idle, from now on: the run has moved to it. If its
 * arrays differ from those of the trainer before, waits until a checkpoint that
 * is being written is on disk. */
enum vp_status vp_checkpoints_follow(struct vp_checkpoints *checkpoints,
                                     struct vp_trainer *trainer,
                                     struct vp_err *err);
/* Sets the function that is called before a checkpoint gets its final name, to
 * write files that must be on disk by then. To be called before arming. */
void vp_checkpoints_before_publish(struct vp_checkpoints *checkpoints,
                                   enum vp_status (*fn)(void *ctx,
                                                        struct vp_err *err),
                                   void *ctx);
/* The snapshot holds the state of the step that was just reported: starts to
 * write it to disk in the background. `score` is the loss of an evaluation, or
 * NAN. */
enum vp_status vp_checkpoints_commit(struct vp_checkpoints *checkpoints,
                                     double score, struct vp_err *err);
/* Saves the trainer, which is idle, unless that step is saved already, and
 * waits until all is on disk. In processes other than the lead: only waits for
 * the files of this process. */
enum vp_status vp_checkpoints_finish(struct vp_checkpoints *checkpoints,
                                     double score, struct vp_err *err);
/* Returns the last step on disk; -1: none. */
int64_t vp_checkpoints_saved(struct vp_checkpoints *checkpoints);
void vp_checkpoints_free(struct vp_checkpoints *checkpoints);

/* Calls `warn` for each checkpoint of the run folder `run` that was set aside
 * when the run was resumed. */
enum vp_status vp_checkpoints_warn_aside(const char *run, vp_notice_fn warn,
                                         void *ctx, struct vp_err *err);

#endif
