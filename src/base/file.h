/* Small text files. */
#ifndef VP_BASE_FILE_H
#define VP_BASE_FILE_H

#include "base/status.h"

#include <stdio.h>

#define VP_FILE_MAX_BYTES (256 * 1024)
enum { VP_FILE_WAIT_MS = 10000 };

/* The bytes of `path` and a NUL, to be freed by the caller. `what` is expected
 * there, for messages: "YAML"; they begin with "path: ". */
enum vp_status vp_file_read(const char *path, const char *what,
                            char **bytes_out, size_t *n_bytes_out,
                            struct vp_err *err);

/* The same; a pipe or a device must end within `timeout_ms`, which is
 * VP_FILE_WAIT_MS above. */
enum vp_status vp_file_read_within(const char *path, const char *what,
                                   int timeout_ms, char **bytes_out,
                                   size_t *n_bytes_out, struct vp_err *err);

/* A file of a folder, for writing; NULL after an error. */
FILE *vp_file_open(const char *folder, const char *name, const char *mode,
                   struct vp_err *err);
/* An error if anything was not written. */
enum vp_status vp_file_close(const char *folder, const char *name, FILE *file,
                             struct vp_err *err);

#endif
