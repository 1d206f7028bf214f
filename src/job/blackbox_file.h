/* actions.<rank> in the run folder: the current and the last actions of a rank,
 * in a mapped file that can be read after the rank was killed. If the file is
 * truncated, a SIGBUS handler lets the rank continue without it. */
#ifndef VP_JOB_BLACKBOX_FILE_H
#define VP_JOB_BLACKBOX_FILE_H

#include "runtime/rank/blackbox.h"

/* Maps a blackbox without a file. Returns NULL if out of memory. The blackbox
 * is never unmapped: a rank thread that never returned may write to it until
 * the process exits. */
struct vp_blackbox *vp_blackbox_map(void);
/* Maps a blackbox of vp_blackbox_map() to the new file `folder`/actions.<rank>,
 * at the same address and with its content. Replaces an existing file. */
enum vp_status vp_blackbox_file_keep(struct vp_blackbox *blackbox,
                                     const char *folder, int rank,
                                     struct vp_err *err);
/* Copies the content of `folder`/actions.<rank>. Returns false if the file
 * cannot be read or is too short. */
bool vp_blackbox_file_read(const char *folder, int rank,
                           struct vp_blackbox *out);

#endif
