/* How a translation model searches: what its folder says, else defaults. */
#ifndef VP_RUN_TRANSLATION_SEARCH_H
#define VP_RUN_TRANSLATION_SEARCH_H

#include "decode/beam.h"
#include "model/model.h"

struct vp_translation_search {
    struct vp_beam_options beam; /* n_ids is not set */
    int64_t max_tokens;          /* ids of a translation, at most */
    int32_t start;               /* first id of the decoder's input */
};

/* The ids that a model of vpipe is trained with: those of bytes and generated
 * languages, or, of another padding, those of fairseq. */
struct vp_model_ids vp_translation_ids(const struct vp_model_config *sizes);

/* Reads the Hugging Face folder `folder` (NULL: none). What it does not say has the
 * default of the rule: one beam, length penalty 1, at most 201 ids, the ids of
 * the function above. */
enum vp_status vp_translation_search_read(const char *folder,
                                          const struct vp_model_config *sizes,
                                          enum vp_beam_rule rule,
                                          struct vp_translation_search *out,
                                          struct vp_err *err);

#endif
