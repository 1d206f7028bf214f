/* Generation: runs decoding steps (decode_steps.h) through the pipeline, draws
 * ids from the logits, and passes them to the sink. */
#include "run/generate.h"

#include "base/clock.h"
#include "run/decode_steps.h"
#include "run/inference.h"

#include <stdlib.h>
#include <string.h>

struct job {
    const struct vp_generate_config *with;
    struct vp_decode_steps steps;
    struct vp_batch batch;
    struct vp_decoded_text *texts; /* [n_prompts] */
    int32_t *ids;                  /* ids of all texts */
    int32_t *next;                 /* per text: drawn in this step, or NO_ID */
    int64_t *ended;                /* texts that end with this step */
    float *logits;                 /* [vocab] logits of one position */
    struct vp_sample_candidate *candidates;
    struct vp_generate_stats stats;
};

enum { NO_ID = -1 };

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Preparing ---------------------------------------------------------- */

static enum vp_status check(const struct vp_generate_config *with,
                            struct vp_err *err)
{
    if (with->config->model->task != VP_TASK_CAUSAL_LM)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "a %s model cannot continue texts; use a gpt2 or cpm "
                          "model",
                          with->config->model->name);
    if (with->max_tokens < 1 || with->n_prompts < 1)
        return vp_err_set(err, VP_ERR_INVALID,
                          "there is nothing to generate; give a prompt and "
                          "max_tokens of at least 1");
    for (int64_t k = 0; k < with->n_prompts; k++)
        VP_TRY(vp_sequence_check(&with->config->sizes, k, with->prompts[k].ids,
                                 with->prompts[k].n_ids, err));
    return vp_sample_check(&with->sampling, err);
}

/* Returns the most ids that text `k` can have. Its last id is not an input, so
 * there is one id more than there are positions. */
static int64_t most_ids(const struct vp_generate_config *with, int64_t k)
{
    int64_t room = with->config->sizes.positions + 1 - with->prompts[k].n_ids;

    return with->prompts[k].n_ids + min64(with->max_tokens, room);
}

static enum vp_status allocate(struct job *job, struct vp_err *err)
{
    const struct vp_generate_config *with = job->with;
    size_t n = (size_t)with->n_prompts;
    size_t vocab = (size_t)with->config->sizes.vocab, n_ids = 0;

    for (size_t k = 0; k < n; k++)
        n_ids += (size_t)most_ids(with, (int64_t)k);
    job->ids = calloc(n_ids, sizeof(*job->ids));
    job->texts = calloc(n, sizeof(*job->texts));
    job->next = calloc(n, sizeof(*job->next));
    job->ended = calloc(n, sizeof(*job->ended));
    job->logits = calloc(vocab, sizeof(*job->logits));
    job->candidates = calloc(vocab, sizeof(*job->candidates));
    if (!job->ids || !job->texts || !job->next || !job->ended || !job->logits ||
        !job->candidates)
        return vp_err_set(err, VP_ERR_NOMEM, "generating: out of memory");
    for (size_t k = 0; k < n; k++)
        job->next[k] = NO_ID;
    return VP_OK;
}

static void copy_prompts(struct job *job)
{
    const struct vp_generate_config *with = job->with;
    int32_t *ids = job->ids;

    for (int64_t k = 0; k < with->n_prompts; k++) {
        const struct vp_sequence *prompt = &with->prompts[k];
        struct vp_decoded_text *text = &job->texts[k];

        text->ids = ids;
        text->n = prompt->n_ids;
        text->most = most_ids(with, k);
        memcpy(ids, prompt->ids, (size_t)prompt->n_ids * sizeof(*ids));
        ids += text->most;
    }
}

/* Allocates the arrays of the batch that are needed for a cache. */
static enum vp_status add_places(struct job *job, const struct vp_dims *room,
                                 struct vp_err *err)
{
    VP_TRY(vp_sequence_batch_resize(&job->batch, VP_ROLE_POSITIONS,
                                    room->batch * room->seq, err));
    return vp_sequence_batch_resize(&job->batch, VP_ROLE_LINES,
                                    room->batch * job->steps.cache.n_positions,
                                    err);
}

static enum vp_status prepare(struct job *job, struct vp_err *err)
{
    const struct vp_generate_config *with = job->with;
    struct vp_dims room;

    VP_TRY(allocate(job, err));
    copy_prompts(job);
    VP_TRY(vp_decode_steps_init(&job->steps, with->config, !with->no_cache,
                                job->texts, with->n_prompts, err));
    room = vp_decode_steps_room(&job->steps);
    VP_TRY(vp_sequence_batch_init(&room, &job->batch, err));
    return add_places(job, &room, err);
}

/* ---- A decoding step ---------------------------------------------------- */

/* Writes the positions of row `i`, and its cache line for each position up to
 * the last one. */
static void put_places(const struct vp_decode_row *row,
                       const struct vp_dims *dims, int64_t n_positions,
                       int64_t i, struct vp_batch *batch)
{
    int32_t *at = batch->array[VP_ROLE_POSITIONS] + i * dims->seq;
    int32_t *lines = batch->array[VP_ROLE_LINES] + i * n_positions;

    for (int64_t t = 0; t < dims->seq; t++)
        at[t] = t < row->n ? (int32_t)(row->begin + t) : -1;
    for (int64_t t = 0; row->text && t < row->begin + row->n; t++)
        lines[t] = (int32_t)row->text->line;
}

static enum vp_status next_batch(void *ctx, uint64_t minibatch,
                                 const struct vp_batch **out,
                                 struct vp_err *err)
{
    struct job *job = ctx;
    const struct vp_decode_row *rows = vp_decode_steps_rows(&job->steps,
                                                            minibatch);
    struct vp_batch *batch = &job->batch;
    int32_t *label_rows = batch->array[VP_ROLE_LABEL_ROWS];
    int64_t n_positions = job->steps.cache.n_positions;
    const struct vp_dims *dims;

    (void)err;
    batch->bucket = job->steps.buckets[minibatch];
    batch->n_samples = 0;
    dims = &job->steps.dims[batch->bucket];
    for (int64_t i = 0; i < dims->batch; i++) {
        const struct vp_decode_row *row = &rows[i];
        struct vp_sequence sequence = { .n_ids = row->n };

        if (row->text)
            sequence.ids = row->text->ids + row->begin;
        vp_sequence_put(&sequence, dims, job->with->config->sizes.pad, i,
                        batch);
        if (n_positions > 0)
            put_places(row, dims, n_positions, i, batch);
        label_rows[i] = -1;
        if (vp_decode_row_draws(row))
            label_rows[i] = (int32_t)(i * dims->seq + row->n - 1);
        batch->n_samples += row->text != NULL;
    }
    *out = batch;
    return VP_OK;
}

/* Returns true if the next id is always the most likely one: the device finds
 * it, and the host need not read the logits. */
static bool is_argmax(const struct vp_generate_config *with)
{
    return !with->no_cache && with->sampling.temperature == 0.0 &&
           with->sampling.repetition_penalty == 1.0;
}

static enum vp_status draw(struct job *job, const struct vp_logits *logits,
                           int64_t row, const struct vp_decoded_text *text,
                           int32_t *id_out, struct vp_err *err)
{
    const struct vp_generate_config *with = job->with;
    const struct vp_sample_input input = { .logits = job->logits,
                                           .n_ids = (int)logits->cols,
                                           .history = text->ids,
                                           .n_history = (int)text->n };
    const struct vp_sample_key key = { .seed = with->seed,
                                       .sequence = (uint64_t)(text -
                                                              job->texts),
                                       .position = (uint32_t)text->n };

    vp_logits_row(logits, row, job->logits);
    return vp_sample(&with->sampling, &input, &key, job->candidates, id_out,
                     err);
}

/* Draws the next id of each text. */
static enum vp_status take_logits(void *ctx, const struct vp_logits *logits,
                                  struct vp_err *err)
{
    struct job *job = ctx;
    const struct vp_decode_row *rows = vp_decode_steps_rows(&job->steps,
                                                            logits->minibatch) +
                                       logits->first;

    for (int64_t i = 0; i < logits->rows; i++) {
        const struct vp_decoded_text *text = rows[i].text;
        int32_t *next;

        if (!vp_decode_row_draws(&rows[i]))
            continue;
        next = &job->next[text - job->texts];
        if (!is_argmax(job->with))
            VP_TRY(draw(job, logits, i, text, next, err));
        else if (((const int32_t *)logits->at)[i] >= 0)
            *next = ((const int32_t *)logits->at)[i];
        else
            return vp_err_set(err, VP_ERR_NONFINITE,
                              "a logit of text %lld is not finite; check the "
                              "weights of the model",
                              (long long)(text - job->texts) + 1);
    }
    return VP_OK;
}

static bool is_end(const struct vp_generate_config *with, int32_t id)
{
    for (int i = 0; i < with->n_end_ids; i++)
        if (with->end_ids[i] == id)
            return true;
    return false;
}

/* Appends the id that was drawn for text `k`. */
static enum vp_status grow(struct job *job, int64_t k, bool *ended_out,
                           struct vp_err *err)
{
    const struct vp_generate_config *with = job->with;
    const struct vp_text_sink *sink = &with->sink;
    struct vp_decoded_text *text = &job->texts[k];
    enum vp_text_end why = VP_TEXT_END_LENGTH;
    bool stop = false;

    text->ids[text->n++] = job->next[k];
    VP_TRY(sink->token(sink->ctx, k, job->next[k], &stop, err));
    *ended_out = true;
    if (is_end(with, job->next[k]))
        why = VP_TEXT_END_ID;
    else if (stop)
        why = VP_TEXT_END_STOPPED;
    else if (text->n < text->most)
        *ended_out = false;
    else if (text->n < with->prompts[k].n_ids + with->max_tokens)
        why = VP_TEXT_END_POSITIONS;
    return *ended_out && sink->end ? sink->end(sink->ctx, k, why, err) : VP_OK;
}

/* Gives each text of the step its id, in order of the texts. */
static enum vp_status grow_all(struct job *job, struct vp_err *err)
{
    struct vp_decode_steps *steps = &job->steps;
    int64_t n_ended = 0;

    for (int64_t i = 0; i < steps->n_active; i++) {
        int64_t k = steps->active[i];
        bool ended = false;

        if (job->next[k] == NO_ID)
            continue;
        VP_TRY(grow(job, k, &ended, err));
        job->next[k] = NO_ID;
        job->ended[n_ended] = k;
        n_ended += ended;
    }
    while (n_ended > 0)
        vp_decode_steps_end(steps, job->ended[--n_ended]);
    return VP_OK;
}

static void count_step(struct job *job, double seconds)
{
    struct vp_generate_stats *stats = &job->stats;
    const struct vp_decode_steps *steps = &job->steps;

    if (steps->n_prompt_ids > 0) {
        stats->n_prompt_ids += steps->n_prompt_ids;
        stats->prompt_seconds += seconds;
        return;
    }
    stats->n_new_ids += steps->n_active;
    stats->n_steps++;
    stats->new_seconds += seconds;
}

static enum vp_status run(struct job *job, struct vp_inference *inference,
                          struct vp_err *err)
{
    struct vp_score score = { .loss = 0.0 };

    while (vp_decode_steps_next(&job->steps)) {
        int64_t start_ns = vp_clock_ns();

        VP_TRY(vp_inference_run(inference, 0, job->steps.n_minibatches, &score,
                                err));
        count_step(job, vp_clock_seconds(start_ns, vp_clock_ns()));
        VP_TRY(grow_all(job, err));
    }
    return VP_OK;
}

/* ---- All of it ---------------------------------------------------------- */

static void count_cache(struct job *job, const struct vp_inference *inference)
{
    int n_stages;
    const struct vp_stage_price *prices = vp_inference_prices(inference,
                                                              &n_stages);

    for (int s = 0; s < n_stages; s++)
        job->stats.cache_bytes += prices[s].memory.cache;
}

static enum vp_status open_and_run(struct job *job, bool *lost_out,
                                   struct vp_err *err)
{
    const struct vp_generate_config *with = job->with;
    const struct vp_inference_config config = {
        .config = with->config,
        .source = with->source,
        .job = with->job,
        .outputs = is_argmax(with) ? VP_OUTPUT_LOGITS | VP_OUTPUT_ARGMAX
                                   : VP_OUTPUT_LOGITS,
        .dims = job->steps.dims,
        .n_dims = job->steps.n_dims,
        .cache = job->steps.cache,
        .feed = { job, next_batch },
        .sink = { job, take_logits },
        .notice = with->notice,
        .ctx = with->ctx,
    };
    struct vp_inference *inference;
    enum vp_status st;

    VP_TRY(vp_inference_open(&config, &inference, err));
    count_cache(job, inference);
    st = run(job, inference, err);
    *lost_out = !vp_inference_free(inference);
    return st;
}

static void job_free(struct job *job)
{
    vp_sequence_batch_release(&job->batch);
    vp_decode_steps_release(&job->steps);
    free(job->candidates);
    free(job->logits);
    free(job->ended);
    free(job->next);
    free(job->texts);
    free(job->ids);
    free(job);
}

enum vp_status vp_generate(const struct vp_generate_config *config,
                           struct vp_err *err)
{
    struct job *job;
    bool lost = false;
    enum vp_status st;

    VP_TRY(check(config, err));
    job = calloc(1, sizeof(*job));
    if (!job)
        return vp_err_set(err, VP_ERR_NOMEM, "generating: out of memory");
    job->with = config;
    st = prepare(job, err);
    if (st == VP_OK)
        st = open_and_run(job, &lost, err);
    if (config->stats_out)
        *config->stats_out = job->stats;
    if (!lost) /* leaked otherwise: a rank that did not return may use it */
        job_free(job);
    return st;
}
