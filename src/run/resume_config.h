/* What resuming a run is given. */
#ifndef VP_RUN_RESUME_CONFIG_H
#define VP_RUN_RESUME_CONFIG_H

#include "comm/comm.h"
#include "config/config.h"
#include "run/notice.h"

struct vp_data;
struct vp_graph;

struct vp_resume_config {
    const char *path; /* a run folder, its checkpoints, or one of them */
    const struct vp_config *config;
    struct vp_world *world; /* of several processes, which all come here */
    const struct vp_graph *graph;
    const struct vp_data *data;
    void *ctx;
    vp_notice_fn notice; /* what will not be exact */
    vp_notice_fn warn;   /* a checkpoint that was passed over, at the lead */
};

#endif
