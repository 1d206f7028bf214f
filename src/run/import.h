/* Makes a checkpoint of step 0 from a Hugging Face folder:
 *
 *   <to>/step-0/        the weights, in F32
 *   <to>/huggingface/   what an export gives back beside them */
#ifndef VP_RUN_IMPORT_H
#define VP_RUN_IMPORT_H

#include "base/status.h"
#include "run/notice.h"

#include <stdint.h>

struct vp_import_result {
    const char *architecture; /* never freed */
    const char *model;        /* likewise */
    int64_t n_params;
    int n_files;
};

/* `to` must not exist, or be empty. `note` is called for what an export will not
 * write as it is in `from`. Needs memory for the weights. */
enum vp_status vp_import(const char *from, const char *to, vp_notice_fn note,
                         void *ctx, struct vp_import_result *out,
                         struct vp_err *err);

#endif
