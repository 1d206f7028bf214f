/* Files that are read at any offset for the whole run. Few of them are open at
 * a time. A file that changes after it was added is refused, since a resumed run
 * could not repeat its samples. Reading is by pread(): a file that is cut short
 * meanwhile gives an error, where a mapping would end the process. */
#ifndef VP_DATA_FILE_SET_H
#define VP_DATA_FILE_SET_H

#include "base/status.h"

#include <stdint.h>

struct vp_file_set;

/* NULL: out of memory. */
struct vp_file_set *vp_file_set_create(void);
void vp_file_set_free(struct vp_file_set *set);

/* Adds a regular file; symbolic links are followed. Files are numbered from 0.
 * Not thread-safe, unlike the functions below. */
enum vp_status vp_file_set_add(struct vp_file_set *set, const char *path,
                               int *file_out, struct vp_err *err);
const char *vp_file_set_path(const struct vp_file_set *set, int file);
int64_t vp_file_set_bytes(const struct vp_file_set *set, int file);

/* Reads exactly `n` bytes; a file that ends before is an error. Allocates
 * nothing. */
enum vp_status vp_file_set_read(struct vp_file_set *set, int file,
                                int64_t offset, int64_t n, void *out,
                                struct vp_err *err);
/* Asks the system to read these bytes into its cache. Errors are ignored: they
 * come back when the bytes are read. */
void vp_file_set_ahead(struct vp_file_set *set, int file, int64_t offset,
                       int64_t n);

#endif
