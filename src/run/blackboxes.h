/* Blackboxes of the ranks of this process. Under a supervisor a process has one
 * rank; its heartbeat reports the blackbox, and a file in the run folder keeps
 * it. */
#ifndef VP_RUN_BLACKBOXES_H
#define VP_RUN_BLACKBOXES_H

#include "comm/comm.h"
#include "config/config.h"
#include "job/heartbeat.h"

struct vp_blackboxes {
    /* Per rank, for vp_train_config; NULL: a rank of another process. */
    struct vp_blackbox **at;
    int rank;                       /* first rank of this process */
    struct vp_heartbeat *heartbeat; /* NULL: no supervisor */
};

/* Maps a blackbox for each rank of this process. `world` NULL: all ranks are
 * threads of this process. Borrows `heartbeat`, which may be NULL. To be closed
 * also after an error. */
enum vp_status vp_blackboxes_open(struct vp_blackboxes *boxes,
                                  const struct vp_config *config,
                                  const struct vp_world *world,
                                  struct vp_heartbeat *heartbeat,
                                  struct vp_err *err);
/* Maps the blackbox of this process to a file in `folder` from now on, so that
 * it can be read after the process was killed. */
enum vp_status vp_blackboxes_keep(struct vp_blackboxes *boxes,
                                  const struct vp_config *config,
                                  const char *folder, struct vp_err *err);
/* Frees the list. The blackboxes stay mapped: see vp_blackbox_map(). */
void vp_blackboxes_close(struct vp_blackboxes *boxes);

#endif
