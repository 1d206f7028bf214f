/* Which positions of which texts the minibatches of a decoding step compute, and
 * the lengths of the programs that do it. Private to generation.
 *
 * With a cache a text has a line of it from its first position to its last. Its
 * prompt is cut into pieces, each a minibatch of its own, so that neither its
 * program nor its rounding depends on other texts; after that a step computes one
 * position of each text, batch_size texts in a minibatch, row i of which is a
 * line of the cache. A text that waits takes the line of one that ended.
 * Without a cache each step computes all positions of all texts. */
#ifndef VP_RUN_DECODE_STEPS_H
#define VP_RUN_DECODE_STEPS_H

#include "config/buckets.h"
#include "config/config.h"

struct vp_decoded_text {
    int32_t *ids;     /* prompt and output */
    int64_t n;        /* of them so far */
    int64_t most;     /* the text ends when it has as many */
    int64_t n_cached; /* positions whose keys and values the cache has */
    int64_t line;     /* of the cache; -1: none */
};

/* Positions [begin, begin + n) of a text; NULL: the row is padding. */
struct vp_decode_row {
    const struct vp_decoded_text *text;
    int64_t begin, n;
};

struct vp_decode_steps {
    struct vp_cache_size cache; /* n_lines 0: none */
    struct vp_dims
        dims[VP_MAX_BUCKETS]; /* without a cache: growing lengths; with
                                            one: of a step, then of prompts */
    int n_dims;
    int64_t batch; /* rows of a minibatch, at most */

    struct vp_decoded_text *texts;
    int64_t n_texts;
    int64_t *active; /* numbers of texts under way, growing */
    int64_t n_active, n_started;
    struct vp_decoded_text **lines; /* of the cache; NULL: free */

    /* The step: minibatch m has a bucket, and `batch` rows of which the dims of
     * that bucket tell how many count. */
    int *buckets;
    struct vp_decode_row *rows;
    int64_t n_minibatches, n_prompt_ids; /* ids of prompts in the step */
};

/* `texts` have their prompts, and stay the caller's. Release after an error, too. */
enum vp_status vp_decode_steps_init(struct vp_decode_steps *steps,
                                    const struct vp_config *config,
                                    bool has_cache,
                                    struct vp_decoded_text *texts,
                                    int64_t n_texts, struct vp_err *err);
void vp_decode_steps_release(struct vp_decode_steps *steps);

/* Room for a batch of any bucket. */
struct vp_dims vp_decode_steps_room(const struct vp_decode_steps *steps);

/* Plans the next step for all texts under way, and starts others where there is
 * room. False: all texts have ended. */
bool vp_decode_steps_next(struct vp_decode_steps *steps);
/* A text gets an id in this step if its last position is computed. */
bool vp_decode_row_draws(const struct vp_decode_row *row);
/* Rows of minibatch `m`. */
const struct vp_decode_row *vp_decode_steps_rows(
    const struct vp_decode_steps *steps, uint64_t m);
/* Text `k`, which is under way, has ended; its line is free. */
void vp_decode_steps_end(struct vp_decode_steps *steps, int64_t k);

#endif
