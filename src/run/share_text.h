/* A text of the lead for all processes of a job. */
#ifndef VP_RUN_SHARE_TEXT_H
#define VP_RUN_SHARE_TEXT_H

#include "comm/comm.h"

/* All processes of the world come here; `text` is that of the lead, and NULL in
 * all others. The caller frees `*out`. */
enum vp_status vp_share_text(struct vp_world *world, const char *text,
                             char **out, struct vp_err *err);

#endif
