/* Running a command in a container: an image of Apptainer (or Singularity, its
 * older name), or of Docker. */
#ifndef VP_JOB_CONTAINER_H
#define VP_JOB_CONTAINER_H

#include "base/words.h"

/* Appends what has to stand before a command that is to run in `image`: a file
 * (x.sif, or any path) or address (docker://x) is Apptainer's, a plain name
 * Docker's. `folder` and the working directory are the same inside. Refused if
 * the tool is not in PATH, or a path has what parts fields: a comma, quotes. */
enum vp_status vp_container_add(struct vp_words *words, const char *image,
                                const char *folder, struct vp_err *err);

#endif
