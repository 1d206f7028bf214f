/* Reads files with poll(), so that a FIFO without a writer cannot block vpipe
 * forever. */
#include "base/file.h"

#include "base/clock.h"
#include "base/nearest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As read(); returns -1 with ETIMEDOUT after the deadline. A FIFO that no
 * writer has opened yet is not at its end: poll() waits for a writer. */
static ssize_t read_some(int fd, char *bytes, size_t n_bytes,
                         int64_t deadline_ns)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    int64_t left_ms = (deadline_ns - vp_clock_ns()) / 1000000;
    int n = poll(&polled, 1, left_ms > 0 ? (int)left_ms : 0);

    if (n == 0)
        errno = ETIMEDOUT;
    return n > 0 ? read(fd, bytes, n_bytes) : -1;
}

static enum vp_status read_bytes(int fd, const char *path, const char *what,
                                 int timeout_ms, char *bytes,
                                 size_t *n_bytes_out, struct vp_err *err)
{
    int64_t deadline_ns = vp_clock_ns() + timeout_ms * INT64_C(1000000);
    size_t used = 0;
    ssize_t n = 1;

    while (n != 0 && used <= VP_FILE_MAX_BYTES) {
        n = read_some(fd, bytes + used, VP_FILE_MAX_BYTES + 1 - used,
                      deadline_ns);
        if (n > 0)
            used += (size_t)n;
        else if (n < 0 && errno == ETIMEDOUT)
            return vp_err_set(err, VP_ERR_IO,
                              "%s: is a pipe or device that does not end "
                              "within %g s; give a %s file",
                              path, timeout_ms * 1e-3, what);
        else if (n < 0 && errno != EINTR && errno != EAGAIN)
            return vp_err_set(err, VP_ERR_IO,
                              "%s: cannot be read: %s; give a %s file", path,
                              strerror(errno), what);
    }
    if (used > VP_FILE_MAX_BYTES)
        return vp_err_set(err, VP_ERR_INVALID,
                          "%s: is larger than %d kB; give a configuration, not "
                          "data",
                          path, VP_FILE_MAX_BYTES / 1024);
    bytes[used] = '\0';
    *n_bytes_out = used;
    return VP_OK;
}

enum vp_status vp_file_read_within(const char *path, const char *what,
                                   int timeout_ms, char **bytes_out,
                                   size_t *n_bytes_out, struct vp_err *err)
{
    enum vp_status st = VP_ERR_NOMEM;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), error = errno;
    char remedy[VP_PATH_REMEDY_BYTES];
    char *bytes;

    if (fd < 0)
        return vp_err_set(err, VP_ERR_IO, "%s: cannot be opened: %s; %s", path,
                          strerror(error),
                          vp_path_remedy(path,
                                         error == EACCES
                                             ? "change its permissions"
                                             : "check the path",
                                         remedy));
    bytes = malloc(VP_FILE_MAX_BYTES + 1);
    if (!bytes) {
        vp_err_set(err, st, "%s: out of memory; close other programs", path);
        goto close_file;
    }
    st = read_bytes(fd, path, what, timeout_ms, bytes, n_bytes_out, err);
    if (st == VP_OK)
        *bytes_out = bytes;
    else
        free(bytes);
close_file:
    close(fd);
    return st;
}

enum vp_status vp_file_read(const char *path, const char *what,
                            char **bytes_out, size_t *n_bytes_out,
                            struct vp_err *err)
{
    return vp_file_read_within(path, what, VP_FILE_WAIT_MS, bytes_out,
                               n_bytes_out, err);
}

FILE *vp_file_open(const char *folder, const char *name, const char *mode,
                   struct vp_err *err)
{
    char path[1024 + 64];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, mode);
    if (!file)
        vp_err_write(err, path, errno);
    return file;
}

enum vp_status vp_file_close(const char *folder, const char *name, FILE *file,
                             struct vp_err *err)
{
    bool failed = ferror(file);

    failed |= fclose(file) != 0;
    if (failed)
        return vp_err_set(err, VP_ERR_IO, "%s/%s: cannot be written (%s); %s",
                          folder, name, strerror(errno),
                          vp_write_remedy(errno));
    return VP_OK;
}
