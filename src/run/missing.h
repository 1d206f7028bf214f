/* What is missing on this machine to run a plan that was made on it. */
#ifndef VP_RUN_MISSING_H
#define VP_RUN_MISSING_H

#include "config/config.h"
#include "run/summary.h"
#include "runtime/fit.h"
#include "runtime/train_config.h"

struct vp_missing {
    char text[VP_MISSING_TEXT]; /* as vp_run_summary.missing; "": nothing */
    bool gpu;                   /* among them: a GPU, or its plugin */
};

/* Appends one item: "memory (61 GiB are needed, 23 GiB left)". */
void vp_missing_add(struct vp_missing *missing, const char *fmt, ...)
    VP_PRINTF(2, 3);

struct vp_missing_config {
    const struct vp_config *config;
    const struct vp_train_config *train;
    const struct vp_run_summary *summary;
    struct vp_host_need host; /* of the trainer */
    const char *folder;       /* of the run, which need not exist; NULL: none */
};

/* Appends memory of host and GPUs, the transport, and disk space for
 * checkpoints. For ranks that may run on other machines only the transport is
 * checked. */
void vp_missing_find(const struct vp_missing_config *with,
                     struct vp_missing *missing);

#endif
