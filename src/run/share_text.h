/* Sends a text from the lead to all processes of a job. */
#ifndef VP_RUN_SHARE_TEXT_H
#define VP_RUN_SHARE_TEXT_H

#include "comm/comm.h"

/* To be called by all processes of the world; `text` is NULL in all but the
 * lead. The caller frees `*out`, a copy of the lead's text. */
enum vp_status vp_share_text(struct vp_world *world, const char *text,
                             char **out, struct vp_err *err);

#endif
