/* System calls with retries, syncing of folders, removal of folders. */
#include "ckpt/io.h"

#include "base/blocking.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Deepest nesting of folders that vp_io_remove() removes. */
enum { MAX_DEPTH = 8 };

static int system_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

const struct vp_io vp_io_system = {
    .open = system_open,
    .pread = pread,
    .write = write,
    .fsync = fsync,
    .close = close,
    .mkdir = mkdir,
    .rename = rename,
    .unlink = unlink,
    .rmdir = rmdir,
};

static const struct vp_io *io = &vp_io_system;

const struct vp_io *vp_io_swap(const struct vp_io *next)
{
    const struct vp_io *before = io;

    io = next;
    return before;
}

static int begin_call(const char *what, const char *path, int fd)
{
    return vp_blocking_begin(VP_BLOCKING_FILE, what, path, fd);
}

int vp_io_open(const char *path, int flags, int *fd_out)
{
    int call = begin_call("opening", path, -1);
    int fd;

    do
        fd = io->open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    vp_blocking_end(call);
    if (fd < 0)
        return errno;
    *fd_out = fd;
    return 0;
}

/* EINTR is not an error: Linux has closed the file even then. */
int vp_io_close(int fd)
{
    int call = begin_call("closing", NULL, fd);
    int rc = io->close(fd) == 0 || errno == EINTR ? 0 : errno;

    vp_blocking_end(call);
    return rc;
}

int vp_io_read(int fd, void *buf, size_t n_bytes, int64_t at)
{
    unsigned char *to = buf;

    while (n_bytes > 0) {
        size_t most = n_bytes < VP_IO_CHUNK ? n_bytes : VP_IO_CHUNK;
        int call = begin_call("reading", NULL, fd);
        ssize_t n = io->pread(fd, to, most, (off_t)at);

        vp_blocking_end(call);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return VP_IO_SHORT;
        to += n;
        at += n;
        n_bytes -= (size_t)n;
    }
    return 0;
}

void vp_io_direct(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_DIRECT);
}

/* Clears O_DIRECT. Returns false if it was not set. */
static bool direct_off(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || !(flags & O_DIRECT))
        return false;
    return fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

int vp_io_write(int fd, const void *buf, size_t n_bytes)
{
    const unsigned char *from = buf;

    while (n_bytes > 0) {
        size_t most = n_bytes < VP_IO_CHUNK ? n_bytes : VP_IO_CHUNK;
        int call = begin_call("writing", NULL, fd);
        ssize_t n = io->write(fd, from, most);

        vp_blocking_end(call);
        if (n < 0 && (errno == EINTR || (errno == EINVAL && direct_off(fd))))
            continue;
        if (n < 0)
            return errno;
        if (n == 0) /* no progress and no error: do not loop forever */
            return EIO;
        from += n;
        n_bytes -= (size_t)n;
    }
    return 0;
}

int vp_io_sync(int fd)
{
    int call = begin_call("syncing", NULL, fd);
    int rc;

    do
        rc = io->fsync(fd);
    while (rc != 0 && errno == EINTR);
    vp_blocking_end(call);
    return rc == 0 ? 0 : errno;
}

/* Some file systems cannot sync a folder and return EINVAL or ENOTSUP, which is
 * ignored. */
int vp_io_sync_folder(const char *path)
{
    int fd = -1;
    int rc = vp_io_open(path, O_RDONLY | O_DIRECTORY, &fd);
    int rc_close;

    if (rc != 0)
        return rc;
    rc = vp_io_sync(fd);
    if (rc == EINVAL || rc == ENOTSUP)
        rc = 0;
    rc_close = vp_io_close(fd);
    return rc != 0 ? rc : rc_close;
}

int vp_io_sync_parent(const char *path)
{
    char parent[VP_IO_PATH_MAX];
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n == 0)
        return vp_io_sync_folder(".");
    if (n >= sizeof(parent))
        return ENAMETOOLONG;
    memcpy(parent, path, n);
    parent[n] = '\0';
    return vp_io_sync_folder(parent);
}

int vp_io_mkdir(const char *path)
{
    int call = begin_call("making", path, -1);
    int rc = io->mkdir(path, 0777) == 0 ? 0 : errno;

    vp_blocking_end(call);
    return rc;
}

int vp_io_rename(const char *from, const char *to)
{
    int call = begin_call("renaming", from, -1);
    int rc = io->rename(from, to) == 0 ? 0 : errno;

    vp_blocking_end(call);
    return rc;
}

static int remove_at(const char *path, int depth);

static int remove_inside(const char *path, int depth)
{
    char inside[VP_IO_PATH_MAX];
    DIR *dir = opendir(path);
    struct dirent *entry;
    int rc = 0;

    if (!dir)
        return errno;
    while (rc == 0) {
        errno = 0;
        entry = readdir(dir);
        if (!entry) {
            rc = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        rc = vp_io_join(inside, path, entry->d_name);
        if (rc == 0)
            rc = remove_at(inside, depth + 1);
    }
    closedir(dir);
    return rc;
}

/* Calls unlink() first: it removes a link but fails on a folder, so that a link
 * to a folder is never followed. */
static int remove_at(const char *path, int depth)
{
    int call = begin_call("removing", path, -1);
    int rc = io->unlink(path) == 0 || errno == ENOENT ? 0 : errno;

    vp_blocking_end(call);
    if (rc != EISDIR && rc != EPERM)
        return rc;
    if (depth > MAX_DEPTH)
        return ELOOP;
    rc = remove_inside(path, depth);
    if (rc == 0 && io->rmdir(path) != 0)
        rc = errno;
    return rc;
}

int vp_io_remove(const char *path)
{
    return remove_at(path, 0);
}

int vp_io_discard(const char *folder, const char *path, const char *trash)
{
    int rc = vp_io_remove(trash);

    if (rc == 0)
        rc = vp_io_rename(path, trash);
    if (rc == 0)
        rc = vp_io_sync_folder(folder);
    if (rc == 0)
        rc = vp_io_remove(trash);
    return rc;
}

bool vp_io_is_missing(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

const char *vp_io_reason(int error)
{
    return error == VP_IO_SHORT ? "the file is cut short" : strerror(error);
}

int vp_io_join(char out[VP_IO_PATH_MAX], const char *a, const char *b)
{
    int n = snprintf(out, VP_IO_PATH_MAX, "%s/%s", a, b);

    return n >= 0 && n < VP_IO_PATH_MAX ? 0 : ENAMETOOLONG;
}
