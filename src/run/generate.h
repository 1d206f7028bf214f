/* Generates texts with a causal language model, token by token. */
#ifndef VP_RUN_GENERATE_H
#define VP_RUN_GENERATE_H

#include "config/config.h"
#include "decode/sample.h"
#include "run/inference_job.h"
#include "run/model_source.h"
#include "run/notice.h"
#include "run/sequence.h"

/* Reason why a text ended. */
enum vp_text_end {
    VP_TEXT_END_ID,        /* its last id is one of end_ids */
    VP_TEXT_END_STOPPED,   /* `token` asked for it */
    VP_TEXT_END_LENGTH,    /* it has max_tokens new ids */
    VP_TEXT_END_POSITIONS, /* the model has no position for another id */
};

/* Callbacks in the thread that called vp_generate(). A decoding step gives each
 * text under way one id, in order of the texts. */
struct vp_text_sink {
    void *ctx;
    /* Text `k` has a new id, possibly its last. Sets `*stop_out` to true to end
     * the text with it. */
    enum vp_status (*token)(void *ctx, int64_t k, int32_t id, bool *stop_out,
                            struct vp_err *err);
    /* Text `k` gets no more ids. May be NULL. */
    enum vp_status (*end)(void *ctx, int64_t k, enum vp_text_end why,
                          struct vp_err *err);
};

/* Decoding steps with a prompt are counted separately from steps that only
 * continue texts. Without a cache all steps are of the second kind. */
struct vp_generate_stats {
    int64_t n_prompt_ids; /* ids of prompts */
    double prompt_seconds;
    int64_t n_new_ids, n_steps;
    double new_seconds;
    int64_t cache_bytes; /* key-value cache of all stages */
};

struct vp_generate_config {
    const struct vp_config *config; /* from vp_model_source_config() */
    const struct vp_model_source *source;
    struct vp_inference_job *job; /* several processes; NULL: one */
    const struct vp_sequence *prompts;
    int64_t n_prompts;
    int64_t max_tokens; /* new ids of each text, at least 1 */
    struct vp_sample_options sampling;
    uint64_t seed;
    const int32_t *end_ids;
    int n_end_ids;
    bool no_cache; /* each step computes all positions again */
    struct vp_generate_stats *stats_out; /* may be NULL */
    struct vp_text_sink sink;
    void *ctx;
    vp_notice_fn notice;
};

/* Continues all prompts, with batch_size of them in a minibatch. A drawn id is
 * a function of the logits, the options and (seed, number of the prompt,
 * position), so a text depends neither on the other prompts nor on the stages.
 * Exception: kernels whose rounding depends on shapes may swap ids of equal
 * probability.
 *
 * A step computes the new position of each text; keys and values of earlier
 * positions are kept in a cache, whose bytes are part of the plan. Texts
 * without a cache line wait until another text ends. VP_ERR_INVALID names a
 * prompt (counted from 1) that the model cannot take; VP_ERR_UNSUPPORTED: the
 * model is not causal. */
enum vp_status vp_generate(const struct vp_generate_config *config,
                           struct vp_err *err);

#endif
