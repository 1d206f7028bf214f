/* Sentences that an encoder-decoder model translates by beam search. */
#ifndef VP_RUN_TRANSLATE_H
#define VP_RUN_TRANSLATE_H

#include "config/config.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "run/sequence.h"
#include "run/translation_search.h"

/* The best result of a sentence. */
struct vp_translation {
    const int32_t *ids; /* behind the start id; the last one is EOS, unless
                           max_tokens ended the search */
    int n_ids;
    double score; /* see decode/beam.h */
};

/* Called by the thread that called vp_translate(), in the order of sentences, for
 * sentence `k` as soon as all sentences up to it have ended. */
struct vp_translation_sink {
    void *ctx;
    enum vp_status (*take)(void *ctx, int64_t k,
                           const struct vp_translation *translation,
                           struct vp_err *err);
};

struct vp_translate_config {
    const struct vp_config *config; /* of vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job;        /* NULL: this process is alone */
    const struct vp_sequence *sentences; /* ids of the source, EOS included;
                                            targets are not read */
    int64_t n_sentences;
    struct vp_translation_search search; /* max_tokens: the positions of the
                                            model are another limit */
    bool no_cache; /* each step computes all positions again */
    struct vp_translation_sink sink;
    void *ctx;
    vp_notice_fn notice;
};

/* Translates all sentences. A minibatch has as many rows, one for each beam of a
 * sentence, as batch_size tokens allow at the longest length; a sentence that
 * has ended makes room for the next one. Which rows share a minibatch does not
 * depend on the stages, so neither do the translations; another batch_size
 * changes logits by rounding only.
 *
 * On a CPU a source is encoded once, padded to the next power of two, and a step
 * computes the new position of each beam; keys and values of sources and of the
 * positions before are kept in a cache, whose bytes are part of the plan. A GPU
 * computes all positions of source and target in each step.
 * VP_ERR_INVALID names a sentence, from 1 on, that the model
 * cannot take, or an option of the search; VP_ERR_UNSUPPORTED: the model is no
 * encoder-decoder. */
enum vp_status vp_translate(const struct vp_translate_config *config,
                            struct vp_err *err);

#endif
