/* Every file operation of this folder goes through one table, so that a test
 * can stop the process at any call, let it fail, or cut it short.
 * Interrupted and short calls are completed here. */
#ifndef VP_CKPT_IO_H
#define VP_CKPT_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As the system calls of these names. */
struct vp_io {
    int (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*pread)(int fd, void *buf, size_t n_bytes, off_t at);
    ssize_t (*write)(int fd, const void *buf, size_t n_bytes);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*rmdir)(const char *path);
};

extern const struct vp_io vp_io_system;

/* Replaces the table for the whole process and returns the one before. Not to
 * be called while a writer exists or a checkpoint is read. */
const struct vp_io *vp_io_swap(const struct vp_io *next);

enum {
    VP_IO_PATH_MAX = 4096, /* with the final 0 */
    VP_IO_SHORT = -1,      /* the file ended before the last byte */
    VP_IO_CHUNK = 4 << 20, /* the most that one call moves */
};

/* All return 0, an error number of the system, or VP_IO_SHORT. */
int vp_io_open(const char *path, int flags, int *fd_out);
int vp_io_close(int fd);
int vp_io_read(int fd, void *buf, size_t n_bytes, int64_t at);
int vp_io_write(int fd, const void *buf, size_t n_bytes);
/* Lets writes go past the page cache, where the file system can: half the
 * work for the processor. What does not fit its sectors takes the usual way. */
void vp_io_direct(int fd);
int vp_io_sync(int fd);
int vp_io_sync_folder(const char *path);
int vp_io_sync_parent(const char *path); /* the folder that holds it */
int vp_io_mkdir(const char *path);
int vp_io_rename(const char *from, const char *to);

/* A file, a link, or a folder with all that is in it; never follows a link.
 * Nothing there is no error. */
int vp_io_remove(const char *path);

/* Removes `path`, which is in `folder`, so that it is never seen half removed
 * under its own name: the name `trash` reaches the disk before the first file
 * is gone. */
int vp_io_discard(const char *folder, const char *path, const char *trash);

/* Whether a path leads nowhere, as opposed to a disk that fails. */
bool vp_io_is_missing(int error);

/* The name of an error, for a message. */
const char *vp_io_reason(int error);

/* `a`/`b`, or ENAMETOOLONG. */
int vp_io_join(char out[VP_IO_PATH_MAX], const char *a, const char *b);

#endif
