/* Small text files, whole. Private to launch. */
#ifndef VP_LAUNCH_FILE_H
#define VP_LAUNCH_FILE_H

#include "base/status.h"

#define VP_FILE_MAX_BYTES (256 * 1024)

/* The bytes of `path`, to be freed by the caller. `what` is expected there,
 * for messages: "YAML"; they begin with "path: ". */
enum vp_status vp_file_read(const char *path, const char *what,
                            char **bytes_out, size_t *n_bytes_out,
                            struct vp_err *err);

#endif
