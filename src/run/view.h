/* What a supervisor sees of the rank of this process: its blackbox, also in a
 * file of the run folder. */
#ifndef VP_RUN_VIEW_H
#define VP_RUN_VIEW_H

#include "comm/comm.h"
#include "config/config.h"
#include "job/heartbeat.h"

struct vp_view {
    struct vp_blackbox **blackboxes; /* per rank, for vp_train_config */
    int rank;                        /* of this process */
    struct vp_heartbeat *heartbeat;
};

/* `world` NULL: all ranks are here, and the first one is seen. Borrows
 * `heartbeat`. */
enum vp_status vp_view_open(struct vp_view *view,
                            const struct vp_config *config,
                            const struct vp_world *world,
                            struct vp_heartbeat *heartbeat, struct vp_err *err);
/* Keeps it in `folder` from now on, where it is found after a kill. */
enum vp_status vp_view_keep(struct vp_view *view,
                            const struct vp_config *config, const char *folder,
                            struct vp_err *err);
void vp_view_close(struct vp_view *view);

#endif
