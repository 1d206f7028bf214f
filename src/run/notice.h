/* Callback for lines that are shown to the user. `line` is valid only during
 * the call. */
#ifndef VP_RUN_NOTICE_H
#define VP_RUN_NOTICE_H

typedef void (*vp_notice_fn)(void *ctx, const char *line);

#endif
