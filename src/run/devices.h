/* Which backend a run computes with, and which device each rank has. */
#ifndef VP_RUN_DEVICES_H
#define VP_RUN_DEVICES_H

#include "comm/comm.h"
#include "config/config.h"
#include "run/missing.h"
#include "run/notice.h"
#include "runtime/trainer/trainer.h"

struct vp_devices_config {
    const struct vp_config *config;
    const struct vp_world *world; /* of several processes, or NULL */
    bool dry_run;                 /* devices only plan */
    struct vp_missing *missing; /* NULL: a device that is not here is refused */
    void *ctx;
    vp_notice_fn notice;
};

/* Processors of this machine that are online, at least 1. */
int vp_devices_n_cores(void);

/* Sets backend, backend_config and devices of `train`: the GPU if there is one,
 * unless the configuration says otherwise. Where the plugin for a GPU is lacking,
 * too, the backend is vp_backend_planned("cuda"). `*devices_out` is what
 * train->devices points to, or NULL; the caller frees it after the trainer. */
enum vp_status vp_devices_choose(const struct vp_devices_config *config,
                                 struct vp_train_config *train,
                                 int **devices_out, struct vp_err *err);

#endif
