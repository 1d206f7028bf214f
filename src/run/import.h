/* Makes a checkpoint of step 0 from a Hugging Face folder:
 *
 *   <to>/step-0/        the weights, in F32
 *   <to>/huggingface/   other content of the folder, which an export writes
 * again */
#ifndef VP_RUN_IMPORT_H
#define VP_RUN_IMPORT_H

#include "base/status.h"
#include "run/notice.h"

#include <stdint.h>

struct vp_import_result {
    const char *architecture; /* static */
    const char *model;        /* static */
    int64_t n_params;
    int n_files;
};

/* `to` must not exist, or be empty. Calls `note` for content of `from` that an
 * export will not write unchanged. Holds all weights in memory. */
enum vp_status vp_import(const char *from, const char *to, vp_notice_fn note,
                         void *ctx, struct vp_import_result *out,
                         struct vp_err *err);

#endif
