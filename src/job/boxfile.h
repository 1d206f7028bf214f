/* actions.<rank> in the run folder: what a rank does and did last, in a mapped
 * file. It can be read after the rank was killed: the pages belong to the
 * kernel. If the file is truncated meanwhile, the rank goes on without it, by a
 * handler of SIGBUS that passes other faults on. */
#ifndef VP_JOB_BOXFILE_H
#define VP_JOB_BOXFILE_H

#include "runtime/rank/box.h"

/* A box that is never unmapped: threads that were given up may write to it
 * until the process ends. NULL without memory. */
struct vp_box *vp_box_map(void);
/* Keeps such a box in a file, made anew, from now on. */
enum vp_status vp_boxfile_keep(struct vp_box *box, const char *folder, int rank,
                               struct vp_err *err);
/* A copy of what is there; false if it cannot be read. */
bool vp_boxfile_read(const char *folder, int rank, struct vp_box *out);

#endif
