/* Texts that a causal language model continues, token by token. */
#ifndef VP_RUN_GENERATE_H
#define VP_RUN_GENERATE_H

#include "config/config.h"
#include "decode/sample.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "run/sequence.h"

/* Why a text ended. */
enum vp_text_end {
    VP_TEXT_END_ID,        /* its last id is one of end_ids */
    VP_TEXT_END_STOPPED,   /* `token` asked for it */
    VP_TEXT_END_LENGTH,    /* it has max_tokens new ids */
    VP_TEXT_END_POSITIONS, /* the model has no position for another id */
};

/* Called by the thread that called vp_generate(). A decoding step gives each
 * text under way one id, in order of their numbers. */
struct vp_text_sink {
    void *ctx;
    /* A new id of text `k`, also one that ends it. Sets *stop_out to true if the
     * text shall end with it. */
    enum vp_status (*token)(void *ctx, int64_t k, int32_t id, bool *stop_out,
                            struct vp_err *err);
    /* Text `k` gets no more ids. NULL: that is not told. */
    enum vp_status (*end)(void *ctx, int64_t k, enum vp_text_end why,
                          struct vp_err *err);
};

/* Steps with a prompt are counted apart from those that only continue texts.
 * Without a cache all are of the second kind. */
struct vp_generate_stats {
    int64_t n_prompt_ids; /* ids of prompts */
    double prompt_seconds;
    int64_t n_new_ids, n_steps;
    double new_seconds;
    int64_t cache_bytes; /* of all stages */
};

struct vp_generate_config {
    const struct vp_config *config; /* of vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job; /* NULL: this process is alone */
    const struct vp_sequence *prompts;
    int64_t n_prompts;
    int64_t max_tokens; /* new ids of each text, at least 1 */
    struct vp_sample_options sampling;
    uint64_t seed;
    const int32_t *end_ids;
    int n_end_ids;
    bool no_cache; /* each step computes all positions again */
    struct vp_generate_stats *stats_out; /* NULL: not asked for */
    struct vp_text_sink sink;
    void *ctx;
    vp_notice_fn notice;
};

/* Continues all prompts, batch_size of them in a minibatch. A drawn id is a
 * function of the logits, the options and (seed, number of the prompt, position),
 * so a text depends neither on the other prompts nor on the stages, except where
 * kernels that round by shape make equally likely ids change places.
 *
 * A step computes the new position of each text; keys and values of those before
 * it are kept in a cache, whose bytes are part of the plan. Texts that find no
 * line in it wait for others to end. VP_ERR_INVALID names a prompt, from 1 on, that the model
 * cannot take; VP_ERR_UNSUPPORTED: the model is not causal. */
enum vp_status vp_generate(const struct vp_generate_config *config,
                           struct vp_err *err);

#endif
