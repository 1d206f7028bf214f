/* Reads the settings for text generation of a Hugging Face folder. */
#ifndef VP_HF_GENERATION_H
#define VP_HF_GENERATION_H

#include "base/status.h"

#include <stdint.h>

enum { VP_HF_MAX_END_IDS = 16 };

/* Ids that end a text. */
struct vp_hf_end_ids {
    int32_t at[VP_HF_MAX_END_IDS];
    int n;
};

/* Reads eos_token_id, a number or a list, of generation_config.json, or else of
 * config.json, in the folder `path`. out->n is 0 if neither file has it. A
 * missing file is not an error, but a file that is not JSON is. */
enum vp_status vp_hf_read_end_ids(const char *path, struct vp_hf_end_ids *out,
                                  struct vp_err *err);

/* early_stopping: false, true or "never". */
enum vp_hf_early_stopping {
    VP_HF_STOP_NOT_GIVEN,
    VP_HF_STOP_FALSE,
    VP_HF_STOP_TRUE,
    VP_HF_STOP_NEVER,
};

/* Settings of the beam search of an encoder-decoder model. Each key is taken
 * from generation_config.json, or else from config.json; null counts as not
 * given. */
struct vp_hf_search {
    int64_t n_beams;       /* num_beams; 0: not given */
    double length_penalty; /* NAN: not given */
    enum vp_hf_early_stopping early_stopping;
    int64_t max_tokens; /* max_new_tokens, or else max_length - 1 for the start
                           token; 0: not given */
    int32_t forced_bos; /* forced_bos_token_id, -1: not given */
    int32_t start;      /* decoder_start_token_id, -1: not given */
};

/* Reads the settings from the folder `path`; missing files are not an error.
 * Returns VP_ERR_INVALID if a key has the wrong type or an impossible value. */
enum vp_status vp_hf_read_search(const char *path, struct vp_hf_search *out,
                                 struct vp_err *err);

#endif
