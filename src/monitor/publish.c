/* Atomic replacement of a file by rename(). */
#include "monitor/publish.h"

#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static bool put_all(int fd, const char *bytes, size_t n_bytes)
{
    while (n_bytes > 0) {
        ssize_t n = write(fd, bytes, n_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

enum vp_status vp_publish(const char *path, const char *bytes, size_t n_bytes,
                          struct vp_err *err)
{
    char beside[PATH_MAX];
    bool good;
    int fd, error;

    if (snprintf(beside, sizeof(beside), "%s.tmp", path) >= (int)sizeof(beside))
        return vp_err_write(err, path, ENAMETOOLONG);
    if (vp_path_is_special(path)) /* rename() would replace a device */
        return vp_err_set(err, VP_ERR_IO,
                          "%s: is not a file; name a file that may be replaced",
                          path);
    fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK,
              0666);
    if (fd < 0)
        return vp_err_write(err, beside, errno);
    errno = 0;
    good = put_all(fd, bytes, n_bytes);
    error = errno;
    if (close(fd) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && rename(beside, path) == 0)
        return VP_OK;
    error = good ? errno : error;
    unlink(beside);
    return vp_err_write(err, path, error);
}
