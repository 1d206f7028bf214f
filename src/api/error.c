/* Status codes and messages of the public interface, its version, and the saved
 * floating-point environment and locale of the calling thread. */
#include "api/internal.h"

#include <stdio.h>
#include <string.h>

const char *vpipe_version(void)
{
    return VPIPE_VERSION;
}

const char *vpipe_status_name(enum vpipe_status status)
{
    static const char *const names[] = {
        [VPIPE_OK] = "ok",
        [VPIPE_INVALID] = "invalid",
        [VPIPE_IO] = "io",
        [VPIPE_NO_MEMORY] = "no memory",
        [VPIPE_NOT_FINITE] = "not finite",
        [VPIPE_TIMEOUT] = "timeout",
        [VPIPE_UNSUPPORTED] = "unsupported",
        [VPIPE_CALLBACK] = "callback",
        [VPIPE_FAILED] = "failed",
    };

    return (size_t)status < VP_COUNT_OF(names) ? names[status] : "unknown";
}

static enum vpipe_status public_status(enum vp_status st)
{
    switch (st) {
    case VP_OK:
        return VPIPE_OK;
    case VP_ERR_INVALID:
        return VPIPE_INVALID;
    case VP_ERR_IO:
        return VPIPE_IO;
    case VP_ERR_NOMEM:
        return VPIPE_NO_MEMORY;
    case VP_ERR_NONFINITE:
        return VPIPE_NOT_FINITE;
    case VP_ERR_TIMEOUT:
        return VPIPE_TIMEOUT;
    case VP_ERR_UNSUPPORTED:
        return VPIPE_UNSUPPORTED;
    default:
        return VPIPE_FAILED;
    }
}

enum vpipe_status vp_api_report_callback(struct vpipe_error *error,
                                         enum vp_status st,
                                         const struct vp_err *err, int code)
{
    enum vpipe_status status = public_status(st);
    const char *text = st == VP_OK          ? ""
                       : err->text[0]       ? err->text
                       : st == VP_ERR_NOMEM ? "out of memory"
                                            : vp_status_name(st);

    if (st != VP_OK && code != 0)
        status = VPIPE_CALLBACK;
    if (error) {
        error->status = status;
        snprintf(error->message, sizeof(error->message), "%.*s",
                 (int)sizeof(error->message) - 1, text);
    }
    return status;
}

enum vpipe_status vp_api_report(struct vpipe_error *error, enum vp_status st,
                                const struct vp_err *err)
{
    return vp_api_report_callback(error, st, err, 0);
}

enum vpipe_status vp_api_null(struct vpipe_error *error, const char *function,
                              const char *argument)
{
    struct vp_err err;

    vp_err_set(&err, VP_ERR_INVALID, "%s: argument '%s' is NULL", function,
               argument);
    return vp_api_report(error, VP_ERR_INVALID, &err);
}

/* ---- The calling thread -------------------------------------------------- */

static pthread_once_t locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale; /* never freed: threads may use it at any time */

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

void vp_caller_enter(struct vp_caller *caller)
{
    pthread_once(&locale_once, make_locale);
    fegetenv(&caller->fenv);
    fesetenv(FE_DFL_ENV);
    caller->locale = c_locale ? uselocale(c_locale) : (locale_t)0;
}

void vp_caller_leave(const struct vp_caller *caller)
{
    if (caller->locale)
        uselocale(caller->locale);
    fesetenv(&caller->fenv);
}
