/* Reading small text files as a whole, and writing files of a folder. */
#ifndef VP_BASE_FILE_H
#define VP_BASE_FILE_H

#include "base/status.h"

#include <stdio.h>

#define VP_FILE_MAX_BYTES (256 * 1024)
enum { VP_FILE_WAIT_MS = 10000 };

/* Reads the whole file `path`, at most VP_FILE_MAX_BYTES. A NUL follows the
 * bytes; the caller frees them. `what` names the expected format in messages:
 * "YAML". Messages begin with "path: ". A pipe or device must end within
 * VP_FILE_WAIT_MS. */
enum vp_status vp_file_read(const char *path, const char *what,
                            char **bytes_out, size_t *n_bytes_out,
                            struct vp_err *err);

/* The same, with `timeout_ms` instead of VP_FILE_WAIT_MS. */
enum vp_status vp_file_read_within(const char *path, const char *what,
                                   int timeout_ms, char **bytes_out,
                                   size_t *n_bytes_out, struct vp_err *err);

/* Opens `folder`/`name` with fopen()'s `mode`, which is one for writing.
 * Returns NULL and sets `err` on failure. Close it with vp_file_close(). */
FILE *vp_file_open(const char *folder, const char *name, const char *mode,
                   struct vp_err *err);
/* Closes `file`, whose path is `folder`/`name`. Returns VP_ERR_IO if any write
 * to it failed. */
enum vp_status vp_file_close(const char *folder, const char *name, FILE *file,
                             struct vp_err *err);

#endif
