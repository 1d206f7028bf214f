/* Runs a command in a container: an image of Apptainer (formerly Singularity)
 * or of Docker. */
#ifndef VP_JOB_CONTAINER_H
#define VP_JOB_CONTAINER_H

#include "base/words.h"

/* Appends the words that precede a command to run it in `image`. A file (x.sif,
 * or any path) or an address (docker://x) is run by Apptainer, a plain name by
 * Docker. `folder` and the working directory have the same paths in the
 * container. Fails with VP_ERR_UNSUPPORTED if the tool is not in PATH, and with
 * VP_ERR_INVALID if a path contains a comma, a double quote or a newline. */
enum vp_status vp_container_add(struct vp_words *words, const char *image,
                                const char *folder, struct vp_err *err);

#endif
