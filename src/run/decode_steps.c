/* Plans decoding steps: lengths of programs, assignment of cache lines to
 * texts, and the rows of each minibatch. */
#include "run/decode_steps.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHORTEST = 32,       /* length of the shortest program without a cache */
    SHORTEST_PIECE = 16, /* shortest piece of a prompt */
    /* Longest piece of a prompt: enough rows to keep a device busy, few enough
     * to keep the memory of activations small. */
    LONGEST_PIECE = 256,
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- Lengths ------------------------------------------------------------ */

/* Returns the positions of the longest text; its last id is not an input. */
static int64_t longest_text(const struct vp_decode_steps *steps)
{
    int64_t longest = 1;

    for (int64_t k = 0; k < steps->n_texts; k++)
        if (steps->texts[k].most - 1 > longest)
            longest = steps->texts[k].most - 1;
    return longest;
}

/* Sets lengths for steps without a cache: powers of two, so that the lengths of
 * a text's programs do not depend on max_tokens, and as the last one the
 * positions of the model. */
static void set_whole_dims(struct vp_decode_steps *steps, int64_t positions)
{
    int64_t shortest = positions, longest = longest_text(steps);
    int64_t length = SHORTEST;
    struct vp_dims dims = { .batch = steps->batch, .n_labels = steps->batch };

    for (int64_t k = 0; k < steps->n_texts; k++)
        shortest = min64(shortest, steps->texts[k].n);
    while (length < longest && steps->n_dims < VP_MAX_BUCKETS - 1) {
        dims.seq = length;
        if (length >= shortest)
            steps->dims[steps->n_dims++] = dims;
        length *= 2;
    }
    dims.seq = length < longest ? positions : min64(length, positions);
    steps->dims[steps->n_dims++] = dims;
}

/* Sets lengths for steps with a cache. Lengths of pieces are powers of two; all
 * but the last piece of a prompt have the longest length. Adds only lengths
 * that some prompt uses. */
static void set_cached_dims(struct vp_decode_steps *steps, int64_t positions)
{
    int64_t most = min64(LONGEST_PIECE, positions);
    struct vp_dims dims = { .batch = steps->batch,
                            .seq = 1,
                            .n_labels = steps->batch };

    steps->dims[steps->n_dims++] = dims;
    dims.batch = dims.n_labels = 1;
    for (int64_t length = SHORTEST_PIECE, shorter = 0; shorter < most;
         shorter = length, length *= 2) {
        bool used = false;

        for (int64_t k = 0; k < steps->n_texts; k++) {
            int64_t n = steps->texts[k].n, last = (n - 1) % most + 1;

            used |= (last > shorter && last <= length) ||
                    (n > most && length >= most);
        }
        dims.seq = min64(length, most);
        if (used)
            steps->dims[steps->n_dims++] = dims;
    }
}

/* Returns the first bucket from `first` on that is at least `length` long. */
static int find_bucket(const struct vp_decode_steps *steps, int first,
                       int64_t length)
{
    int bucket = first;

    while (steps->dims[bucket].seq < length)
        bucket++;
    return bucket;
}

struct vp_dims vp_decode_steps_room(const struct vp_decode_steps *steps)
{
    struct vp_dims room = steps->dims[0];

    room.seq = steps->dims[steps->n_dims - 1].seq;
    return room;
}

/* ---- A step ------------------------------------------------------------- */

const struct vp_decode_row *vp_decode_steps_rows(
    const struct vp_decode_steps *steps, uint64_t m)
{
    return steps->rows + (int64_t)m * steps->batch;
}

bool vp_decode_row_draws(const struct vp_decode_row *row)
{
    return row->text && row->begin + row->n == row->text->n;
}

/* Appends a minibatch whose rows are all padding. */
static struct vp_decode_row *add_minibatch(struct vp_decode_steps *steps,
                                           int bucket)
{
    struct vp_decode_row *rows = steps->rows +
                                 steps->n_minibatches * steps->batch;

    memset(rows, 0, (size_t)steps->batch * sizeof(*rows));
    steps->buckets[steps->n_minibatches++] = bucket;
    return rows;
}

/* Gives free lines to texts that have not begun, in order. */
static void start_texts(struct vp_decode_steps *steps)
{
    for (int64_t line = 0;
         line < steps->cache.n_lines && steps->n_started < steps->n_texts;
         line++) {
        struct vp_decoded_text *text = &steps->texts[steps->n_started];

        if (steps->lines[line])
            continue;
        text->line = line;
        steps->lines[line] = text;
        steps->active[steps->n_active++] = steps->n_started++;
    }
}

static void add_prompt(struct vp_decode_steps *steps,
                       struct vp_decoded_text *text)
{
    int64_t most = steps->dims[steps->n_dims - 1].seq;

    while (text->n_cached < text->n) {
        int64_t n = min64(text->n - text->n_cached, most);
        struct vp_decode_row *row = add_minibatch(steps,
                                                  find_bucket(steps, 1, n));

        *row = (struct vp_decode_row){ text, text->n_cached, n };
        text->n_cached += n;
        steps->n_prompt_ids += n;
    }
}

/* Adds a minibatch with the next position of each text in lines
 * [first, first + batch). */
static void add_step(struct vp_decode_steps *steps, int64_t first)
{
    struct vp_decode_row *rows = NULL;

    for (int64_t i = 0; i < steps->batch; i++) {
        struct vp_decoded_text *text = steps->lines[first + i];

        if (!text || text->n_cached != text->n - 1 || text->n_cached == 0)
            continue;
        if (!rows)
            rows = add_minibatch(steps, 0);
        rows[i] = (struct vp_decode_row){ text, text->n_cached++, 1 };
    }
}

static void plan_cached(struct vp_decode_steps *steps)
{
    start_texts(steps);
    for (int64_t line = 0; line < steps->cache.n_lines; line += steps->batch)
        add_step(steps, line);
    for (int64_t line = 0; line < steps->cache.n_lines; line++)
        if (steps->lines[line])
            add_prompt(steps, steps->lines[line]);
}

/* Plans all positions of all texts, in order of the texts. */
static void plan_whole(struct vp_decode_steps *steps)
{
    while (steps->n_started < steps->n_texts)
        steps->active[steps->n_active++] = steps->n_started++;
    for (int64_t i = 0; i < steps->n_active; i += steps->batch) {
        int64_t n = min64(steps->n_active - i, steps->batch), longest = 0;
        struct vp_decode_row *rows = add_minibatch(steps, 0);

        for (int64_t j = 0; j < n; j++) {
            const struct vp_decoded_text *text =
                &steps->texts[steps->active[i + j]];

            rows[j] = (struct vp_decode_row){ text, 0, text->n };
            longest = text->n > longest ? text->n : longest;
        }
        steps->buckets[steps->n_minibatches - 1] = find_bucket(steps, 0,
                                                               longest);
    }
}

bool vp_decode_steps_next(struct vp_decode_steps *steps)
{
    steps->n_minibatches = steps->n_prompt_ids = 0;
    if (steps->cache.n_lines > 0)
        plan_cached(steps);
    else
        plan_whole(steps);
    return steps->n_active > 0;
}

void vp_decode_steps_end(struct vp_decode_steps *steps, int64_t k)
{
    struct vp_decoded_text *text = &steps->texts[k];
    int64_t n = 0;

    for (int64_t i = 0; i < steps->n_active; i++)
        if (steps->active[i] != k)
            steps->active[n++] = steps->active[i];
    steps->n_active = n;
    if (text->line >= 0)
        steps->lines[text->line] = NULL;
    text->line = -1;
}

/* ---- Memory ------------------------------------------------------------- */

/* Returns the largest possible number of minibatches of a step: all lines begin
 * at once. */
static int64_t most_minibatches(const struct vp_decode_steps *steps)
{
    int64_t longest = 1, most = steps->dims[steps->n_dims - 1].seq;

    if (steps->cache.n_lines == 0)
        return divide_up(steps->n_texts, steps->batch);
    for (int64_t k = 0; k < steps->n_texts; k++)
        longest = steps->texts[k].n > longest ? steps->texts[k].n : longest;
    return steps->cache.n_lines * divide_up(longest, most) +
           steps->cache.n_lines / steps->batch;
}

enum vp_status vp_decode_steps_init(struct vp_decode_steps *steps,
                                    const struct vp_config *config,
                                    bool has_cache,
                                    struct vp_decoded_text *texts,
                                    int64_t n_texts, struct vp_err *err)
{
    int64_t positions = config->sizes.positions, n_groups;
    size_t n;

    *steps = (struct vp_decode_steps){
        .batch = min64(config->batch_size, n_texts),
        .texts = texts,
        .n_texts = n_texts,
    };
    /* One minibatch in flight per stage keeps all stages busy. */
    n_groups = min64(divide_up(n_texts, steps->batch),
                     vp_config_n_stages(config));
    if (has_cache)
        steps->cache = (struct vp_cache_size){
            .n_lines = steps->batch * n_groups,
            .n_positions = longest_text(steps),
        };
    if (has_cache)
        set_cached_dims(steps, positions);
    else
        set_whole_dims(steps, positions);
    n = (size_t)most_minibatches(steps);
    steps->active = calloc((size_t)n_texts, sizeof(*steps->active));
    steps->lines = calloc((size_t)steps->cache.n_lines + 1,
                          sizeof(*steps->lines));
    steps->buckets = calloc(n, sizeof(*steps->buckets));
    steps->rows = calloc(n * (size_t)steps->batch, sizeof(*steps->rows));
    for (int64_t k = 0; k < n_texts; k++)
        texts[k].line = -1;
    if (!steps->active || !steps->lines || !steps->buckets || !steps->rows)
        return vp_err_set(err, VP_ERR_NOMEM, "generating: out of memory");
    return VP_OK;
}

void vp_decode_steps_release(struct vp_decode_steps *steps)
{
    free(steps->rows);
    free(steps->buckets);
    free(steps->lines);
    free(steps->active);
}
