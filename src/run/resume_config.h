/* Input of resuming a run, and of loading initial weights. */
#ifndef VP_RUN_RESUME_CONFIG_H
#define VP_RUN_RESUME_CONFIG_H

#include "comm/comm.h"
#include "config/config.h"
#include "run/notice.h"

struct vp_data;
struct vp_graph;

struct vp_resume_config {
    const char *path; /* run folder, its checkpoints folder, or checkpoint */
    const struct vp_config *config;
    struct vp_world *world; /* several processes, which all call; NULL: one */
    const struct vp_graph *graph;
    const struct vp_data *data;
    void *ctx;
    vp_notice_fn notice; /* called if results will not be exactly the same */
    vp_notice_fn warn;   /* lead: called for checkpoints that were skipped */
};

#endif
