/* Small text files. Private to launch. */
#ifndef VP_LAUNCH_FILE_H
#define VP_LAUNCH_FILE_H

#include "base/status.h"

#include <stdio.h>

#define VP_FILE_MAX_BYTES (256 * 1024)

/* The bytes of `path`, to be freed by the caller. `what` is expected there,
 * for messages: "YAML"; they begin with "path: ". */
enum vp_status vp_file_read(const char *path, const char *what,
                            char **bytes_out, size_t *n_bytes_out,
                            struct vp_err *err);

/* A file of a folder, for writing; NULL after an error. */
FILE *vp_file_open(const char *folder, const char *name, const char *mode,
                   struct vp_err *err);
/* An error if anything was not written. */
enum vp_status vp_file_close(const char *folder, const char *name, FILE *file,
                             struct vp_err *err);

#endif
