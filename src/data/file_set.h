/* Random access to files during the whole run. Only a few are open at a time. A
 * file that changes after it was added is refused, because a resumed run could
 * not repeat its samples. Reads use pread(): if a file is truncated meanwhile,
 * pread() returns an error, where access to a mapping would raise SIGBUS. */
#ifndef VP_DATA_FILE_SET_H
#define VP_DATA_FILE_SET_H

#include "base/status.h"

#include <stdint.h>

struct vp_file_set;

/* Returns NULL if out of memory. */
struct vp_file_set *vp_file_set_create(void);
void vp_file_set_free(struct vp_file_set *set);

/* Adds a regular file; symbolic links are followed. *file_out: its number, from
 * 0. Not thread-safe, unlike the functions below. */
enum vp_status vp_file_set_add(struct vp_file_set *set, const char *path,
                               int *file_out, struct vp_err *err);
const char *vp_file_set_path(const struct vp_file_set *set, int file);
int64_t vp_file_set_bytes(const struct vp_file_set *set, int file);

/* Reads exactly `n` bytes; returns an error if the file ends before. Allocates
 * nothing. */
enum vp_status vp_file_set_read(struct vp_file_set *set, int file,
                                int64_t offset, int64_t n, void *out,
                                struct vp_err *err);
/* Starts reading these bytes into the page cache. Ignores errors: the later
 * read returns them. */
void vp_file_set_ahead(struct vp_file_set *set, int file, int64_t offset,
                       int64_t n);

#endif
