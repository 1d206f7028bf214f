/* The blackboxes of the ranks of this process. Under a supervisor a process has
 * one rank; its heartbeat reports the blackbox, and a file of the run folder
 * keeps it. */
#ifndef VP_RUN_BLACKBOXES_H
#define VP_RUN_BLACKBOXES_H

#include "comm/comm.h"
#include "config/config.h"
#include "job/heartbeat.h"

struct vp_blackboxes {
    /* Per rank, for vp_train_config; NULL: of another process. */
    struct vp_blackbox **at;
    int rank;                       /* the first one of this process */
    struct vp_heartbeat *heartbeat; /* NULL: no supervisor */
};

/* `world` NULL: all ranks are threads of this process. Borrows `heartbeat`, which
 * may be NULL. */
enum vp_status vp_blackboxes_open(struct vp_blackboxes *boxes,
                                  const struct vp_config *config,
                                  const struct vp_world *world,
                                  struct vp_heartbeat *heartbeat,
                                  struct vp_err *err);
/* Keeps the blackbox in `folder` from now on, for a reader after a kill. */
enum vp_status vp_blackboxes_keep(struct vp_blackboxes *boxes,
                                  const struct vp_config *config,
                                  const char *folder, struct vp_err *err);
void vp_blackboxes_close(struct vp_blackboxes *boxes);

#endif
