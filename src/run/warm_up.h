/* Makes GPUs ready on a separate thread while this process reads data. */
#ifndef VP_RUN_WARM_UP_H
#define VP_RUN_WARM_UP_H

#include "comm/comm.h"
#include "config/config.h"

struct vp_warm_up;

/* Starts to load the plugin for GPUs and, if all ranks are in this process, to
 * open the GPUs that they will use. Errors are ignored: vp_devices_choose() and
 * the trainer report them. Returns NULL if there is nothing to do, or no thread
 * could be created. Borrows `config` until vp_warm_up_end(). */
struct vp_warm_up *vp_warm_up_begin(const struct vp_config *config,
                                    const struct vp_world *world);
/* Waits for the thread. `warm_up` may be NULL. */
void vp_warm_up_end(struct vp_warm_up *warm_up);

#endif
