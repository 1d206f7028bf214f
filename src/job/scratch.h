/* Temporary folder of one job: <place>/vpipe-<uid>-XXXXXX, mode 0700. A file in
 * it is locked (flock) while a process of the job lives, so that the next job
 * recognises and removes folders of killed jobs. */
#ifndef VP_JOB_SCRATCH_H
#define VP_JOB_SCRATCH_H

#include "base/status.h"

enum vp_scratch_place {
    VP_SCRATCH_SOCKET, /* $XDG_RUNTIME_DIR, or /tmp */
    VP_SCRATCH_MEMORY, /* /dev/shm, or /tmp */
    VP_SCRATCH_FILES,  /* /tmp, which containers mount, too */
};

struct vp_scratch {
    char path[96]; /* fits sun_path with a socket's name; empty: no folder */
    int lock;      /* descriptor of the locked file. Child processes inherit it
                    * and keep the folder locked until they exit. */
};

/* Removes folders of killed jobs in all these places, and makes a folder in the
 * first place for `place` that is writable. */
enum vp_status vp_scratch_make(enum vp_scratch_place place,
                               struct vp_scratch *out, struct vp_err *err);
/* Removes the folder and its content. Does nothing if `*scratch` is all
 * zero. */
void vp_scratch_remove(struct vp_scratch *scratch);
/* Called after fork(): closes the lock and leaves the folder to the other
 * process. */
void vp_scratch_forget(struct vp_scratch *scratch);

#endif
