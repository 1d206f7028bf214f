/* A temporary folder of one job: <place>/vpipe-<uid>-XXXXXX, mode 0700. A file
 * in it is locked (flock) while a process of the job lives, so that folders of
 * jobs that were killed are recognised and removed when the next job starts. */
#ifndef VP_JOB_SCRATCH_H
#define VP_JOB_SCRATCH_H

#include "base/status.h"

enum vp_scratch_place {
    VP_SCRATCH_SOCKET, /* $XDG_RUNTIME_DIR, or /tmp */
    VP_SCRATCH_MEMORY, /* /dev/shm, or /tmp */
    VP_SCRATCH_FILES,  /* /tmp, which containers see, too */
};

struct vp_scratch {
    char path[96]; /* short enough for a socket in it; empty: there is none */
    int lock;      /* open file. Programs that this process starts inherit it
                    * and keep the folder locked until they end. */
};

/* Removes what killed jobs left in all of these places, and makes a folder in
 * the first one of `place` that can be written. */
enum vp_status vp_scratch_make(enum vp_scratch_place place,
                               struct vp_scratch *out, struct vp_err *err);
/* Removes the folder with all that is in it. Nothing to do for one that was
 * never made (all zero). */
void vp_scratch_remove(struct vp_scratch *scratch);
/* Forgets it, after fork(): the folder is the other process's to remove. */
void vp_scratch_forget(struct vp_scratch *scratch);

#endif
