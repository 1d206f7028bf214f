/* What a Hugging Face folder says of generating text. */
#ifndef VP_HF_GENERATION_H
#define VP_HF_GENERATION_H

#include "base/status.h"

#include <stdint.h>

enum { VP_HF_MAX_END_IDS = 16 };

/* Ids that end a text: eos_token_id, a number or a list, of
 * generation_config.json, else of config.json in the folder `path`. None if
 * neither file has it. */
struct vp_hf_end_ids {
    int32_t at[VP_HF_MAX_END_IDS];
    int n;
};

/* A file that is missing is no error; one that is not JSON is. */
enum vp_status vp_hf_read_end_ids(const char *path, struct vp_hf_end_ids *out,
                                  struct vp_err *err);

#endif
