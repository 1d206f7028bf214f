/* Writes a Hugging Face folder that from_pretrained() loads. */
#ifndef VP_HF_WRITE_H
#define VP_HF_WRITE_H

#include "hf/write_config.h"

/* Writes to the existing folder `path`. config.json is written last, so a
 * folder without it is incomplete. Holds one tensor in memory at a time. */
enum vp_status vp_hf_write(const char *path, const struct vp_hf_write *with,
                           struct vp_err *err);

#endif
