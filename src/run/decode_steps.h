/* Plans decoding steps: which positions of which texts each minibatch computes,
 * and the sequence lengths for which programs are made. Private to generation.
 *
 * With a cache, a text owns one line of the cache from its first position to
 * its last. Its prompt is cut into pieces, each a minibatch of its own, so that
 * neither its program nor its rounding depends on other texts. After that a
 * step computes one position of each text, with batch_size texts in a
 * minibatch; row i of the minibatch is a line of the cache. A waiting text gets
 * the line of a text that has ended. Without a cache, each step computes all
 * positions of all texts. */
#ifndef VP_RUN_DECODE_STEPS_H
#define VP_RUN_DECODE_STEPS_H

#include "config/buckets.h"
#include "config/config.h"

struct vp_decoded_text {
    int32_t *ids;     /* prompt and output */
    int64_t n;        /* number of ids so far */
    int64_t most;     /* the text ends when `n` reaches it */
    int64_t n_cached; /* positions whose keys and values are in the cache */
    int64_t line;     /* line of the cache; -1: none */
};

/* Positions [begin, begin + n) of `text`; NULL: the row is padding. */
struct vp_decode_row {
    const struct vp_decoded_text *text;
    int64_t begin, n;
};

struct vp_decode_steps {
    struct vp_cache_size cache; /* n_lines 0: no cache */
    /* Without a cache: increasing lengths. With one: the length of a step, then
     * those of prompt pieces. */
    struct vp_dims dims[VP_MAX_BUCKETS];
    int n_dims;
    int64_t batch; /* rows of a minibatch, at most */

    struct vp_decoded_text *texts;
    int64_t n_texts;
    int64_t *active; /* indices of texts under way, increasing */
    int64_t n_active, n_started;
    struct vp_decoded_text **lines; /* text of each cache line; NULL: free */

    /* The current step. Minibatch m has a bucket and `batch` rows; the dims of
     * the bucket give the number of rows in use. */
    int *buckets;
    struct vp_decode_row *rows;
    int64_t n_minibatches, n_prompt_ids; /* prompt ids computed in the step */
};

/* `texts` have their prompts; they are borrowed. To be released also after an
 * error. */
enum vp_status vp_decode_steps_init(struct vp_decode_steps *steps,
                                    const struct vp_config *config,
                                    bool has_cache,
                                    struct vp_decoded_text *texts,
                                    int64_t n_texts, struct vp_err *err);
void vp_decode_steps_release(struct vp_decode_steps *steps);

/* Returns dims that are large enough for a batch of any bucket. */
struct vp_dims vp_decode_steps_room(const struct vp_decode_steps *steps);

/* Plans the next step for all texts under way, and starts waiting texts if
 * lines are free. Returns false if all texts have ended. */
bool vp_decode_steps_next(struct vp_decode_steps *steps);
/* Returns true if the row's text gets a new id in this step: its last position
 * is computed. */
bool vp_decode_row_draws(const struct vp_decode_row *row);
/* Returns the rows of minibatch `m`. */
const struct vp_decode_row *vp_decode_steps_rows(
    const struct vp_decode_steps *steps, uint64_t m);
/* Ends text `k`, which is under way, and frees its line. */
void vp_decode_steps_end(struct vp_decode_steps *steps, int64_t k);

#endif
