/* Messages that quote what a file says. */
#ifndef VP_CKPT_TEXT_H
#define VP_CKPT_TEXT_H

#include "base/status.h"

/* Line ends and other control characters become spaces. `err` may be NULL. */
static inline void vp_text_one_line(struct vp_err *err)
{
    if (!err)
        return;
    for (char *c = err->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F)
            *c = ' ';
}

/* Puts the file in front of the message of a failure, on one line, whatever
 * the length of its path. */
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
