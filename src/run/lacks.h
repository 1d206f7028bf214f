/* What this machine lacks to run a plan that was made on it. */
#ifndef VP_RUN_LACKS_H
#define VP_RUN_LACKS_H

#include "run/run.h"
#include "runtime/fit.h"

struct vp_lacks {
    char text[VP_LACKS_TEXT]; /* as vp_run_summary.lacks; "": nothing */
    bool gpu;                 /* among them: a GPU, or its plugin */
};

/* One more thing: "memory (61 GiB are needed, 23 GiB left)". */
void vp_lacks_add(struct vp_lacks *lacks, const char *fmt, ...) VP_PRINTF(2, 3);

struct vp_lacks_config {
    const struct vp_config *config;
    const struct vp_train_config *train;
    const struct vp_run_summary *summary;
    struct vp_host_need host; /* of the trainer */
    const char *folder;       /* of the run, which need not exist; NULL: none */
};

/* Adds memory of host and GPUs, the transport, and room for checkpoints. Of
 * ranks that may run on other machines only the transport is looked for. */
void vp_lacks_find(const struct vp_lacks_config *with, struct vp_lacks *lacks);

#endif
