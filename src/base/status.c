#include "base/status.h"

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
    }
    return status;
}

void vp_err_prefix(struct vp_err *err, const char *fmt, ...)
{
    char old[sizeof(err->text)];
    va_list args;
    int n;

    if (!err)
        return;
    memcpy(old, err->text, sizeof(old));
    va_start(args, fmt);
    n = vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof(err->text))
        snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", old);
}

void vp_bug(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: bug in vpipe: %s\n", file, line, what);
    abort();
}
