/* actions.<rank> in the run folder: what a rank does and did last, in a mapped
 * file. It can be read after the rank was killed: the pages belong to the
 * kernel. If the file is truncated meanwhile, the rank goes on without it, by a
 * handler of SIGBUS that passes other faults on. */
#ifndef VP_JOB_BLACKBOX_FILE_H
#define VP_JOB_BLACKBOX_FILE_H

#include "runtime/rank/blackbox.h"

/* Maps a blackbox, without a file. It is never unmapped: a rank thread that did
 * not return may write to it until the process ends. NULL without memory. */
struct vp_blackbox *vp_blackbox_map(void);
/* Maps such a blackbox to a new file from now on. */
enum vp_status vp_blackbox_file_keep(struct vp_blackbox *blackbox,
                                     const char *folder, int rank,
                                     struct vp_err *err);
/* Copies the content of the file; false if it cannot be read. */
bool vp_blackbox_file_read(const char *folder, int rank,
                           struct vp_blackbox *out);

#endif
