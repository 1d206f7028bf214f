/* Options of a translation model's beam search: from its folder, or
 * defaults. */
#ifndef VP_RUN_TRANSLATION_SEARCH_H
#define VP_RUN_TRANSLATION_SEARCH_H

#include "decode/beam.h"
#include "model/model.h"

struct vp_translation_search {
    struct vp_beam_options beam; /* n_ids is not set */
    int64_t max_tokens;          /* most ids of a translation */
    int32_t start;               /* first id of the decoder's input */
};

/* Returns the special ids that a model of vpipe is trained with: those of byte
 * and generated data or, for another padding id, those of fairseq. */
struct vp_model_ids vp_translation_ids(const struct vp_model_config *sizes);

/* Reads the options from the Hugging Face folder `folder` (NULL: none).
 * Defaults of options that it does not have are those of `rule`: one beam,
 * length penalty 1, at most 201 ids, the ids of vp_translation_ids(). */
enum vp_status vp_translation_search_read(const char *folder,
                                          const struct vp_model_config *sizes,
                                          enum vp_beam_rule rule,
                                          struct vp_translation_search *out,
                                          struct vp_err *err);

#endif
