/* Paths given by the user: checks and opens them without waiting for another
 * process. */
#ifndef VP_BASE_PATH_H
#define VP_BASE_PATH_H

#include <stdbool.h>
#include <stdio.h>

/* Returns true for a FIFO, socket or device, which may block forever when
 * opened or read. False for files, folders and paths that stat() cannot
 * read. */
bool vp_path_is_special(const char *path);

/* Opens a file for writing, as fopen() with "we" or "ae". Returns NULL with
 * errno on failure. A FIFO without a reader fails with ENXIO, where fopen()
 * would wait. */
FILE *vp_path_create(const char *path, bool append);

/* Writes the path of a cache folder: "vpipe/<part>" below $XDG_CACHE_HOME, or
 * below ~/.cache if that is not set. Returns false if neither is an absolute
 * path or if the result does not fit. */
bool vp_path_cache(const char *part, char *out, size_t n_bytes);

#endif
