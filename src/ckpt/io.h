/* File operations of this folder. All go through one table of system calls, so
 * that a test can end the process at any call, make it fail, or make it
 * partial. Interrupted and partial calls are repeated here. */
#ifndef VP_CKPT_IO_H
#define VP_CKPT_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The system calls of these names. */
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

/* Replaces the table for the whole process. Returns the previous one. Must not
 * be called while a writer exists or a checkpoint is read. */
const struct vp_io *vp_io_swap(const struct vp_io *next);

enum {
    VP_IO_PATH_MAX = 4096, /* with the final 0 */
    VP_IO_SHORT = -1,      /* the file ended before the last byte */
    VP_IO_CHUNK = 4 << 20, /* most bytes per read or write call */
};

/* Functions that return int return 0, an errno value, or VP_IO_SHORT. */
int vp_io_open(const char *path, int flags, int *fd_out);
int vp_io_close(int fd);
int vp_io_read(int fd, void *buf, size_t n_bytes, int64_t at);
int vp_io_write(int fd, const void *buf, size_t n_bytes);
/* Sets O_DIRECT if the file system supports it, which halves the CPU time of
 * writes. vp_io_write() clears it for parts that are not aligned to sectors. */
void vp_io_direct(int fd);
int vp_io_sync(int fd);
int vp_io_sync_folder(const char *path);
int vp_io_sync_parent(const char *path); /* the folder that holds `path` */
int vp_io_mkdir(const char *path);
int vp_io_rename(const char *from, const char *to);

/* Removes a file, a link, or a folder with its content; never follows links.
 * Returns 0 if `path` does not exist. */
int vp_io_remove(const char *path);

/* Removes `path`, a folder in `folder`. It is first renamed to `trash`, and the
 * rename is synced, so that after a crash no partly removed folder has the name
 * `path`. */
int vp_io_discard(const char *folder, const char *path, const char *trash);

/* Returns true if `error` means that a path does not exist, and not that the
 * disk failed. */
bool vp_io_is_missing(int error);

/* Returns the text of an error, for messages. */
const char *vp_io_reason(int error);

/* Writes "a/b". Returns 0 or ENAMETOOLONG. */
int vp_io_join(char out[VP_IO_PATH_MAX], const char *a, const char *b);

#endif
