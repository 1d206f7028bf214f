/* The blackbox of the rank of this process, which its heartbeat reports and a
 * file of the run folder keeps. */
#ifndef VP_RUN_BLACKBOXES_H
#define VP_RUN_BLACKBOXES_H

#include "comm/comm.h"
#include "config/config.h"
#include "job/heartbeat.h"

struct vp_blackboxes {
    struct vp_blackbox **at; /* per rank, for vp_train_config */
    int rank;                /* of this process */
    struct vp_heartbeat *heartbeat;
};

/* `world` NULL: all ranks are threads of this process, and the first one has
 * the blackbox. Borrows `heartbeat`. */
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
