/* Helpers for error messages that quote text of a file. */
#ifndef VP_CKPT_TEXT_H
#define VP_CKPT_TEXT_H

#include "base/status.h"

/* Replaces line ends and other control characters by spaces. `err` may be
 * NULL. */
static inline void vp_text_one_line(struct vp_err *err)
{
    if (!err)
        return;
    for (char *c = err->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            *c = ' ';
}

/* If `st` is an error, puts "path: " in front of the message, on one line, and
 * cuts both so that they fit. Returns `st`. */
static inline enum vp_status vp_text_in_file(const char *path,
                                             enum vp_status st,
                                             struct vp_err *err)
{
    struct vp_err cause;

    if (st == VP_OK || !err)
        return st;
    cause = *err;
    vp_err_set(err, st, "%.3000s: %.1000s", path, cause.text);
    vp_text_one_line(err);
    return st;
}

#endif
