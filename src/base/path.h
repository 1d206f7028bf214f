/* Files that a user names: nothing here waits for another process. */
#ifndef VP_BASE_PATH_H
#define VP_BASE_PATH_H

#include <stdbool.h>
#include <stdio.h>

/* A FIFO, a socket or a device is there: to open or to read it may take for
 * ever. False for files, folders and what cannot be looked at. */
bool vp_path_is_special(const char *path);

/* Opens for writing, as fopen() with "w" or "a", and closes on exec. A FIFO
 * without a reader is an error, ENXIO, where fopen() waits. */
FILE *vp_path_create(const char *path, bool append);

/* The folder for what may be lost: "vpipe/<part>" of $XDG_CACHE_HOME, else of
 * ~/.cache. False: neither is known, or the path does not fit. */
bool vp_path_cache(const char *part, char *out, size_t n_bytes);

#endif
