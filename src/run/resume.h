/* Resumes a run from a checkpoint, possibly with another partition. */
#ifndef VP_RUN_RESUME_H
#define VP_RUN_RESUME_H

#include "run/checkpoint.h"
#include "run/resume_config.h"

struct vp_resume;

/* Finds the folder in which a run is continued by default. `path` is as for
 * vp_resume_open(): a run folder, its checkpoints folder, or a checkpoint in
 * it. VP_ERR_INVALID: there is no such folder, and the user must name one. */
enum vp_status vp_resume_folder(const char *path, char *out, size_t n,
                                struct vp_err *err);
/* Returns true if `folder` is that folder, by whatever path. */
bool vp_resume_is_folder(const char *path, const char *folder);
/* Checks that a run may continue in its own folder `run` from the checkpoint
 * `path`, which will overwrite later steps: VP_ERR_INVALID if a later
 * checkpoint is intact. A later checkpoint that is damaged or cannot be read is
 * no obstacle: the run will set it aside. If `path` is not a checkpoint, the
 * newest one is meant. To be called with the folder locked. */
enum vp_status vp_resume_check_newest(const char *run, const char *path,
                                      struct vp_err *err);

/* Returns the text of the schedule file that the newest checkpoint was trained
 * with, from its manifest alone; the caller frees it. NULL: none, or it cannot
 * be read. `path` is as for vp_resume_open(). */
char *vp_resume_read_schedule(const char *path);
/* Reads the value that `key` had in the configuration of that checkpoint, as
 * text. Returns false if there is no checkpoint, or if it does not have the
 * key. */
bool vp_resume_read_value(const char *path, const char *key, char *out,
                          size_t n_bytes);

/* Opens the checkpoint `config->path`, or the newest one in that run folder
 * that is not damaged, and checks that the configuration may continue from it.
 * With several processes the lead chooses, and all open the same one. Sets
 * `*agreed_out` to true if all processes know of a failure; the process that
 * failed has the message. */
enum vp_status vp_resume_open(const struct vp_resume_config *config,
                              struct vp_resume **out, bool *agreed_out,
                              struct vp_err *err);
const struct vp_loader *vp_resume_loader(const struct vp_resume *resume);
/* Returns the stored action lists of schedule auto; see
 * vp_checkpoint_facts_schedule(). */
const char *vp_resume_schedule(const struct vp_resume *resume,
                               const struct vp_config *config);
/* Returns the folder of the checkpoint. */
const char *vp_resume_ckpt_path(const struct vp_resume *resume);
/* Returns the step, and the name within the folder of checkpoints. */
struct vp_ckpt_entry vp_resume_entry(const struct vp_resume *resume);
void vp_resume_close(struct vp_resume *resume);

#endif
