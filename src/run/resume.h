/* Resuming a run from a checkpoint, under any partition. */
#ifndef VP_RUN_RESUME_H
#define VP_RUN_RESUME_H

#include "run/checkpoint.h"
#include "run/resume_config.h"

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

/* The text of the schedule file that the newest checkpoint was trained with, from
 * its manifest alone; `path` as below. NULL: none, or it cannot be read; the
 * caller frees it. */
char *vp_resume_read_schedule(const char *path);
/* The value that `key` had in the configuration of that checkpoint, as text.
 * False: the checkpoint, or the key in it, is not there. */
bool vp_resume_read_value(const char *path, const char *key, char *out,
                          size_t n_bytes);

/* Opens the newest checkpoint that is not damaged, or the one that `path` is,
 * and checks that the configuration may go on from it. Of several processes the
 * lead chooses, and all open the same one; `agreed_out` tells whether they all
 * know of a failure, whose text then is at the process that has failed. */
enum vp_status vp_resume_open(const struct vp_resume_config *config,
                              struct vp_resume **out, bool *agreed_out,
                              struct vp_err *err);
const struct vp_loader *vp_resume_loader(const struct vp_resume *resume);
/* The lists of auto that go on; see vp_checkpoint_facts_schedule(). */
const char *vp_resume_schedule(const struct vp_resume *resume,
                               const struct vp_config *config);
/* The folder of the checkpoint. */
const char *vp_resume_ckpt_path(const struct vp_resume *resume);
/* The step, and the name in the folder of checkpoints. */
struct vp_ckpt_entry vp_resume_entry(const struct vp_resume *resume);
void vp_resume_close(struct vp_resume *resume);

#endif
