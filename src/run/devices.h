/* Chooses the backend of a run, and the device of each rank. */
#ifndef VP_RUN_DEVICES_H
#define VP_RUN_DEVICES_H

#include "comm/comm.h"
#include "config/config.h"
#include "run/missing.h"
#include "run/notice.h"
#include "runtime/trainer/trainer.h"

struct vp_devices_config {
    const struct vp_config *config;
    const struct vp_world *world; /* several processes; NULL: one */
    bool dry_run;                 /* open devices for planning only */
    /* Receives devices that are missing on this machine; NULL: a missing device
     * is an error. */
    struct vp_missing *missing;
    void *ctx;
    vp_notice_fn notice;
};

/* Returns the number of online processors of this machine, at least 1. */
int vp_devices_n_cores(void);

/* Sets backend, backend_config and plan.devices of `train`: a GPU if there is
 * one, unless the configuration says otherwise. With `missing` and without the
 * plugin for a GPU, the backend is vp_backend_planned("cuda"). `*devices_out`
 * is the array that train->plan.devices points to, or NULL; the caller frees it
 * after the trainer. */
enum vp_status vp_devices_choose(const struct vp_devices_config *config,
                                 struct vp_train_config *train,
                                 int **devices_out, struct vp_err *err);

#endif
