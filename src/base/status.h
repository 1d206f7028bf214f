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
    VP_ERR_INTERRUPTED, /* stopped cleanly after a signal */
    VP_ERR_UNSUPPORTED, /* this build or machine cannot do it */
    VP_ERR_UNMET,       /* a run ended without the required result */
    VP_ERR_END,         /* no more data */
};

/* One line for the user: place, cause, remedy. Empty on success. */
struct vp_err {
    char text[4096];
    /* Names of the configuration fields to blame, separated by spaces, the main
     * one first. NULL: unknown; "": none. A string that is never freed. */
    const char *fields;
};

#if defined(__GNUC__)
#define VP_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define VP_PRINTF(fmt, first)
#endif

const char *vp_status_name(enum vp_status status);

/* Writes the message, sets `fields` to NULL and returns `status`, for `return
 * vp_err_set(err, VP_ERR_INVALID, ...)`. `err` may be NULL in all functions
 * below. */
enum vp_status vp_err_set(struct vp_err *err, enum vp_status status,
                          const char *fmt, ...) VP_PRINTF(3, 4);

/* The same with `fields` set; returns VP_ERR_INVALID. */
enum vp_status vp_err_refuse(struct vp_err *err, const char *fields,
                             const char *fmt, ...) VP_PRINTF(3, 4);
/* vp_err_prefix() puts "text: " before the present message; vp_err_suffix()
 * appends a text, often a remedy. */
void vp_err_prefix(struct vp_err *err, const char *fmt, ...) VP_PRINTF(2, 3);
void vp_err_suffix(struct vp_err *err, const char *fmt, ...) VP_PRINTF(2, 3);

/* Returns a remedy for the errno `error` of a failed write: the end of a
 * message. */
const char *vp_write_remedy(int error);
/* Sets "<path>: cannot be written (<reason>); <remedy>" for the errno `error`.
 * Returns VP_ERR_IO. */
enum vp_status vp_err_write(struct vp_err *err, const char *path, int error);
/* Reports that pthread_create() failed for the threads named by `what`, with
 * the limits to raise. Returns VP_ERR_UNSUPPORTED. */
enum vp_status vp_err_thread(struct vp_err *err, const char *what);

#define VP_TRY(call)                        \
    do {                                    \
        enum vp_status vp_try_st_ = (call); \
        if (vp_try_st_ != VP_OK)            \
            return vp_try_st_;              \
    } while (0)

/* Aborts the program if `cond` is true, in release builds too. For invariants
 * of vpipe only, never for user input. */
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
