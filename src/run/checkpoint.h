/* Checkpoints of a run: the trainer's state in files that know blocks, never
 * stages, and the way back. */
#ifndef VP_RUN_CHECKPOINT_H
#define VP_RUN_CHECKPOINT_H

#include "ckpt/store.h"
#include "comm/comm.h"
#include "config/config.h"
#include "runtime/trainer/trainer.h"

/* ---- Saving ------------------------------------------------------------- */

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

/* ---- Going on ----------------------------------------------------------- */

struct vp_resume;

/* The folder that a run goes on in when no other is named, from what
 * vp_resume_open() takes: a run folder itself, or the one that a checkpoint lies
 * in. VP_ERR_INVALID: another folder has to be named. */
enum vp_status vp_resume_folder(const char *path, char *out, size_t n,
                                struct vp_err *err);
/* Whether `folder` is that one, under whatever name. */
bool vp_resume_is_folder(const char *path, const char *folder);
/* A run that goes on in its own folder `run` from the checkpoint `path` writes
 * the later steps again: VP_ERR_INVALID if a later checkpoint is sound. One that
 * is damaged, or cannot be read, is no obstacle: the run will set it aside. A
 * `path` that is no checkpoint means the newest. To be called with the folder
 * locked. */
enum vp_status vp_resume_check_newest(const char *run, const char *path,
                                      struct vp_err *err);

typedef void (*vp_notice_fn)(void *ctx, const char *line);

/* Warns about each checkpoint in the run folder `run` that was put aside when a
 * run was resumed. */
enum vp_status vp_checkpoints_warn_aside(const char *run, vp_notice_fn warn,
                                         void *ctx, struct vp_err *err);

struct vp_resume_config {
    const char *path; /* a run folder, its checkpoints, or one of them */
    const struct vp_config *config;
    struct vp_world *world; /* of several processes, which all come here */
    const struct vp_graph *graph;
    const struct vp_data *data;
    void *ctx;
    vp_notice_fn notice; /* what will not be exact */
    vp_notice_fn warn;   /* a checkpoint that was passed over, at the lead */
};

/* Opens the newest checkpoint that is not damaged, or the one that `path` is,
 * and checks that the configuration may go on from it. Of several processes the
 * lead chooses, and all open the same one; `agreed_out` tells whether they all
 * know of a failure, whose text then is at the process that has failed. */
enum vp_status vp_resume_open(const struct vp_resume_config *config,
                              struct vp_resume **out, bool *agreed_out,
                              struct vp_err *err);
const struct vp_loader *vp_resume_loader(const struct vp_resume *resume);
/* The step, and the name in the folder of checkpoints. */
struct vp_ckpt_entry vp_resume_entry(const struct vp_resume *resume);
void vp_resume_close(struct vp_resume *resume);

/* The keys that must be as they were, for the documentation; NULL after the
 * last. */
const char *vp_resume_fixed_key(int i);

#endif
