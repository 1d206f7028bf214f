/* Lists the resources that this machine lacks to run a plan which was made on
 * it. */
#ifndef VP_RUN_MISSING_H
#define VP_RUN_MISSING_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/fit.h"
#include "runtime/train_config.h"

struct vp_missing {
    char text[VP_MISSING_TEXT]; /* as vp_run_summary.missing; "": nothing */
    bool gpu;                   /* a GPU or its plugin is missing */
};

/* Appends one item, such as "memory (61 GiB needed, 23 GiB left)". */
void vp_missing_add(struct vp_missing *missing, const char *fmt, ...)
    VP_PRINTF(2, 3);

struct vp_missing_config {
    const struct vp_config *config;
    const struct vp_train_config *train;
    const struct vp_run_summary *summary;
    struct vp_host_need host; /* needs of the trainer */
    const char *folder;       /* run folder, which need not exist; NULL: none */
};

/* Appends items for memory of the host and of GPUs, the transport, and disk
 * space for checkpoints. If ranks may run on other machines, only the transport
 * is checked. */
void vp_missing_find(const struct vp_missing_config *with,
                     struct vp_missing *missing);

#endif
