/* Status codes and one-line error messages shared by the whole library. */
#ifndef VP_BASE_STATUS_H
#define VP_BASE_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vp_status {
    VP_OK = 0,
    VP_ERR_INVALID,     /* the user's mistake: configuration, input, usage */
    VP_ERR_IO,          /* a file or device could not be read or written */
    VP_ERR_NOMEM,       /* host or device memory is exhausted */
    VP_ERR_NONFINITE,   /* NaN or infinity in a loss or gradient */
    VP_ERR_TIMEOUT,     /* a wait exceeded its time limit */
    VP_ERR_ABORTED,     /* another rank failed first */
    VP_ERR_INTERRUPTED, /* a signal asked for a clean stop */
    VP_ERR_UNSUPPORTED, /* a part that this build or machine lacks */
    VP_ERR_UNMET,       /* a run ended without the result that was required */
    VP_ERR_END,         /* no more data */
};

/* One line for the user: place, cause, remedy. Empty on success. */
struct vp_err {
    char text[4096];
    /* Which values of the caller's are to blame: names of fields, separated by
     * spaces, the first one first. NULL: not known; "": none of them. A string
     * that is never freed. */
    const char *fields;
};

#if defined(__GNUC__)
#define VP_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define VP_PRINTF(fmt, first)
#endif

const char *vp_status_name(enum vp_status status);

/* Writes the message and returns `status`, so that callers can say
 * `return vp_err_set(err, VP_ERR_INVALID, ...)`. Names no fields. `err` may be
 * NULL. */
enum vp_status vp_err_set(struct vp_err *err, enum vp_status status,
                          const char *fmt, ...) VP_PRINTF(3, 4);

/* The same for values that were given: VP_ERR_INVALID, with `fields`. */
enum vp_status vp_err_refuse(struct vp_err *err, const char *fields,
                             const char *fmt, ...) VP_PRINTF(3, 4);
/* Puts "text: " in front of the message that is already there; adds a text, a
 * remedy most of the time, behind it. */
void vp_err_prefix(struct vp_err *err, const char *fmt, ...) VP_PRINTF(2, 3);
void vp_err_suffix(struct vp_err *err, const char *fmt, ...) VP_PRINTF(2, 3);

/* What helps when a file cannot be written, by errno: the end of a message. */
const char *vp_write_remedy(int error);
/* "<path>: cannot be written (<reason>); <remedy>", by errno. Returns
 * VP_ERR_IO. */
enum vp_status vp_err_write(struct vp_err *err, const char *path, int error);
/* pthread_create() failed, for threads named by `what`: VP_ERR_UNSUPPORTED, with
 * the limits that forbid it. */
enum vp_status vp_err_thread(struct vp_err *err, const char *what);

#define VP_TRY(call)                        \
    do {                                    \
        enum vp_status vp_try_st_ = (call); \
        if (vp_try_st_ != VP_OK)            \
            return vp_try_st_;              \
    } while (0)

/* Always compiled in; for our own invariants only, never for user input. */
#define VP_BUG_ON(cond)                        \
    do {                                       \
        if (cond)                              \
            vp_bug(__FILE__, __LINE__, #cond); \
    } while (0)
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void vp_bug(const char *file, int line, const char *what);

#define VP_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#ifdef __cplusplus
}
#endif
#endif
