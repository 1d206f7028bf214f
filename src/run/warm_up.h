/* GPUs are made ready by a thread of their own while this process reads data. */
#ifndef VP_RUN_WARM_UP_H
#define VP_RUN_WARM_UP_H

#include "comm/comm.h"
#include "config/config.h"

struct vp_warm_up;

/* Starts to load the plugin for GPUs and, where all ranks are in this process, to
 * open the GPUs that they will use. Whatever fails is left to vp_devices_choose()
 * and to the trainer, which report it. Returns NULL if there is nothing to do, or
 * no thread. `config` is borrowed until the end. */
struct vp_warm_up *vp_warm_up_begin(const struct vp_config *config,
                                    const struct vp_world *world);
/* Waits for the thread; NULL is fine. */
void vp_warm_up_end(struct vp_warm_up *warm_up);

#endif
