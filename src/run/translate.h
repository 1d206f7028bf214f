/* Translates sentences with an encoder-decoder model by beam search. */
#ifndef VP_RUN_TRANSLATE_H
#define VP_RUN_TRANSLATE_H

#include "config/config.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "run/sequence.h"
#include "run/translation_search.h"

/* The best translation of a sentence. */
struct vp_translation {
    const int32_t *ids; /* without the start id; the last one is EOS, unless
                           max_tokens ended the search */
    int n_ids;
    double score; /* see decode/beam.h */
};

/* Called by the thread that called vp_translate(), in the order of sentences:
 * for sentence `k` as soon as sentences 0 to `k` have ended. */
struct vp_translation_sink {
    void *ctx;
    enum vp_status (*take)(void *ctx, int64_t k,
                           const struct vp_translation *translation,
                           struct vp_err *err);
};

struct vp_translate_config {
    const struct vp_config *config; /* from vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job;        /* several processes; NULL: one */
    const struct vp_sequence *sentences; /* source ids with EOS; `target` is not
                                            read */
    int64_t n_sentences;
    struct vp_translation_search search; /* the model's positions limit the
                                            length as max_tokens does */
    bool no_cache; /* each step computes all positions again */
    struct vp_translation_sink sink;
    void *ctx;
    vp_notice_fn notice;
};

/* Translates all sentences. A minibatch has one row for each beam of a
 * sentence; the number of rows is batch_size tokens divided by the longest
 * length. A sentence that has ended makes room for the next one. The rows of a
 * minibatch do not depend on the stages, so neither do the translations;
 * another batch_size changes logits only by rounding.
 *
 * On a CPU a source is encoded once, padded to the next power of two, and a
 * step computes the new position of each beam; keys and values of sources and
 * of earlier positions are kept in a cache, whose bytes are part of the plan. A
 * GPU computes all positions of source and target in each step. VP_ERR_INVALID
 * names a sentence (counted from 1) that the model cannot take, or an option of
 * the search; VP_ERR_UNSUPPORTED: the model is not an encoder-decoder. */
enum vp_status vp_translate(const struct vp_translate_config *config,
                            struct vp_err *err);

#endif
