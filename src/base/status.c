/* Names of status codes, and messages of up to one line in struct vp_err. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *vp_status_name(enum vp_status status)
{
    static const char *const names[] = {
        [VP_OK] = "ok",
        [VP_ERR_INVALID] = "invalid",
        [VP_ERR_IO] = "i/o error",
        [VP_ERR_NOMEM] = "out of memory",
        [VP_ERR_NONFINITE] = "non-finite value",
        [VP_ERR_TIMEOUT] = "timeout",
        [VP_ERR_ABORTED] = "aborted",
        [VP_ERR_INTERRUPTED] = "interrupted",
        [VP_ERR_UNSUPPORTED] = "unsupported",
        [VP_ERR_UNMET] = "requirement not met",
        [VP_ERR_END] = "end of data",
    };
    if ((size_t)status >= VP_COUNT_OF(names))
        return "unknown status";
    return names[status];
}

enum vp_status vp_err_set(struct vp_err *err, enum vp_status status,
                          const char *fmt, ...)
{
    va_list args;

    if (err) {
        va_start(args, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, args);
        va_end(args);
        err->fields = NULL;
    }
    return status;
}

enum vp_status vp_err_refuse(struct vp_err *err, const char *fields,
                             const char *fmt, ...)
{
    va_list args;

    if (err) {
        va_start(args, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, args);
        va_end(args);
        err->fields = fields;
    }
    return VP_ERR_INVALID;
}

void vp_err_suffix(struct vp_err *err, const char *fmt, ...)
{
    size_t n;
    va_list args;

    if (!err)
        return;
    n = strlen(err->text);
    va_start(args, fmt);
    vsnprintf(err->text + n, sizeof(err->text) - n, fmt, args);
    va_end(args);
}

void vp_err_prefix(struct vp_err *err, const char *fmt, ...)
{
    char head[256];
    size_t n, left;
    va_list args;

    if (!err)
        return;
    va_start(args, fmt);
    vsnprintf(head, sizeof(head) - 2, fmt, args);
    va_end(args);
    n = strlen(head);
    memcpy(head + n, ": ", 2);
    n += 2;
    left = sizeof(err->text) - n - 1;
    memmove(err->text + n, err->text, strnlen(err->text, left) + 1);
    err->text[sizeof(err->text) - 1] = '\0';
    memcpy(err->text, head, n);
}

const char *vp_write_remedy(int error)
{
    switch (error) {
    case EFBIG:
        return "raise the limit of file sizes (ulimit -f)";
    case ENOSPC:
    case EDQUOT:
        return "free some space";
    case EMFILE:
    case ENFILE:
        return "raise the limit of open files (ulimit -n)";
    case EACCES:
    case EPERM:
        return "make its folder writable, or choose another";
    case ENOENT:
        return "check that its folder exists, or choose another";
    default:
        return "choose another folder";
    }
}

enum vp_status vp_err_write(struct vp_err *err, const char *path, int error)
{
    return vp_err_set(err, VP_ERR_IO, "%s: cannot be written (%s); %s", path,
                      strerror(error), vp_write_remedy(error));
}

enum vp_status vp_err_thread(struct vp_err *err, const char *what)
{
    return vp_err_set(err, VP_ERR_UNSUPPORTED,
                      "%s cannot be started; raise the limits of processes "
                      "(ulimit -u) and of memory (ulimit -v), or use fewer "
                      "stages or threads_per_stage",
                      what);
}

void vp_bug(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: bug in vpipe: %s\n", file, line, what);
    abort();
}
