/* Chooses the checkpoint that a run resumes from, the same for all
 * processes. */
#ifndef VP_RUN_RESUME_CHOICE_H
#define VP_RUN_RESUME_CHOICE_H

#include "ckpt/ckpt.h"
#include "run/resume_config.h"

/* Opens the checkpoint `resume->path`, or the newest one in the run folder
 * `resume->path` that is not damaged.
 *
 * With several processes the lead searches and verifies all files; the others
 * open the same checkpoint, by path, step and checksum, and verify the blocks
 * that they will load. If one of them finds damage, all try the next older one.
 * If one of them cannot read it now, all stop.
 *
 * Sets `*agreed_out` to true if all processes know of a failure. */
enum vp_status vp_resume_choice_open(const struct vp_resume_config *resume,
                                     struct vp_ckpt **out, bool *agreed_out,
                                     struct vp_err *err);

/* Returns VP_ERR_INVALID for a `path` that holds no checkpoint, with a message
 * that says what `path` is instead, and a remedy. */
enum vp_status vp_resume_choice_none(const char *path, struct vp_err *err);

#endif
