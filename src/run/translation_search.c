/* Combines generation_config.json of a folder with the defaults of Hugging Face
 * or fairseq. */
#include "run/translation_search.h"

#include "data/data_config.h"
#include "hf/generation.h"

#include <math.h>

/* fairseq's limit of the length, without EOS. */
enum { MAX_LEN_B = 200 };

struct vp_model_ids vp_translation_ids(const struct vp_model_config *sizes)
{
    return sizes->pad == VP_TOKEN_PAD
               ? (struct vp_model_ids){ VP_TOKEN_CLS, VP_TOKEN_SEP,
                                        VP_TOKEN_CLS }
               : (struct vp_model_ids){ 0, 2, 2 };
}

static enum vp_beam_stop stop_of(enum vp_hf_early_stopping given)
{
    switch (given) {
    case VP_HF_STOP_TRUE:
        return VP_BEAM_STOP_FULL;
    case VP_HF_STOP_NEVER:
        return VP_BEAM_STOP_NEVER;
    default:
        return VP_BEAM_STOP_NO_GAIN;
    }
}

static enum vp_status set_ends(const char *folder,
                               const struct vp_hf_end_ids *ends,
                               struct vp_beam_options *beam, struct vp_err *err)
{
    if (ends->n > VP_BEAM_MAX_EOS)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "%s: eos_token_id has %d ids; a beam search takes at "
                          "most %d",
                          folder, ends->n, VP_BEAM_MAX_EOS);
    for (int i = 0; i < ends->n; i++)
        beam->eos[i] = ends->at[i];
    beam->n_eos = ends->n;
    return VP_OK;
}

static enum vp_status read_folder(const char *folder,
                                  struct vp_translation_search *search,
                                  struct vp_err *err)
{
    struct vp_beam_options *beam = &search->beam;
    struct vp_hf_end_ids ends;
    struct vp_hf_search given;

    VP_TRY(vp_hf_read_end_ids(folder, &ends, err));
    VP_TRY(vp_hf_read_search(folder, &given, err));
    if (ends.n > 0)
        VP_TRY(set_ends(folder, &ends, beam, err));
    if (given.n_beams > 0)
        beam->n_beams = (int)given.n_beams;
    if (!isnan(given.length_penalty))
        beam->length_penalty = given.length_penalty;
    beam->early_stopping = stop_of(given.early_stopping);
    beam->forced_bos = given.forced_bos;
    if (given.max_tokens > 0)
        search->max_tokens = given.max_tokens;
    if (given.start >= 0)
        search->start = given.start;
    return VP_OK;
}

enum vp_status vp_translation_search_read(const char *folder,
                                          const struct vp_model_config *sizes,
                                          enum vp_beam_rule rule,
                                          struct vp_translation_search *out,
                                          struct vp_err *err)
{
    struct vp_model_ids ids = vp_translation_ids(sizes);
    struct vp_translation_search search = {
        .beam = vp_beam_defaults(rule),
        .max_tokens = MAX_LEN_B + 1,
        .start = ids.start,
    };

    search.beam.eos[search.beam.n_eos++] = ids.end;
    if (folder)
        VP_TRY(read_folder(folder, &search, err));
    if (rule == VP_BEAM_FAIRSEQ && sizes->pad != search.beam.eos[0])
        search.beam.pad = sizes->pad;
    *out = search;
    return VP_OK;
}
