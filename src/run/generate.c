#include "run/generate.h"

#include "config/buckets.h"
#include "run/inference.h"

#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 32 }; /* length of the shortest program */

struct text {
    int32_t *ids; /* prompt and output */
    int64_t n;    /* of them so far */
    int64_t most; /* the text ends when it has as many */
    int32_t next; /* drawn in this decoding step */
};

struct job {
    const struct vp_generate_config *with;
    struct vp_dims dims[VP_MAX_BUCKETS]; /* in order of growing lengths */
    int n_dims;
    struct vp_batch batch;
    struct text *texts; /* [n_prompts] */
    int32_t *ids;       /* of all texts */
    int64_t *active;    /* numbers of unfinished texts, in order */
    int64_t n_active;
    float *logits; /* of one position */
    struct vp_sample_candidate *candidates;
};

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
                          "a %s model does not continue texts; take a gpt2 or "
                          "cpm model",
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

/* The last id of a text is not an input: it may lie behind the last position. */
static int64_t most_ids(const struct vp_generate_config *with, int64_t k)
{
    int64_t room = with->config->sizes.positions + 1 - with->prompts[k].n_ids;

    return with->prompts[k].n_ids + min64(with->max_tokens, room);
}

/* Powers of two, so that the lengths of a text's programs do not depend on
 * max_tokens, and at last the positions of the model. */
static void set_dims(struct job *job)
{
    const struct vp_generate_config *with = job->with;
    int64_t positions = with->config->sizes.positions;
    int64_t shortest = positions, longest = 1, length = SHORTEST;
    struct vp_dims dims = { .batch = min64(with->config->batch_size,
                                           with->n_prompts) };

    for (int64_t k = 0; k < with->n_prompts; k++) {
        int64_t most = most_ids(with, k) - 1;

        shortest = min64(shortest, with->prompts[k].n_ids);
        longest = most > longest ? most : longest;
    }
    dims.n_labels = dims.batch;
    while (length < longest && job->n_dims < VP_MAX_BUCKETS - 1) {
        dims.seq = length;
        if (length >= shortest)
            job->dims[job->n_dims++] = dims;
        length *= 2;
    }
    dims.seq = length < longest ? positions : min64(length, positions);
    job->dims[job->n_dims++] = dims;
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
    job->active = calloc(n, sizeof(*job->active));
    job->logits = calloc(vocab, sizeof(*job->logits));
    job->candidates = calloc(vocab, sizeof(*job->candidates));
    if (!job->ids || !job->texts || !job->active || !job->logits ||
        !job->candidates)
        return vp_err_set(err, VP_ERR_NOMEM, "generating: out of memory");
    return vp_sequence_batch_init(&job->dims[job->n_dims - 1], &job->batch,
                                  err);
}

static void start_texts(struct job *job)
{
    const struct vp_generate_config *with = job->with;
    int32_t *ids = job->ids;

    for (int64_t k = 0; k < with->n_prompts; k++) {
        const struct vp_sequence *prompt = &with->prompts[k];
        struct text *text = &job->texts[k];

        text->ids = ids;
        text->n = prompt->n_ids;
        text->most = most_ids(with, k);
        memcpy(ids, prompt->ids, (size_t)prompt->n_ids * sizeof(*ids));
        ids += text->most;
        job->active[job->n_active++] = k;
    }
}

/* ---- A decoding step ---------------------------------------------------- */

/* The text in row `i` of a minibatch; NULL: the row is padding. */
static struct text *text_at(struct job *job, uint64_t minibatch, int64_t i)
{
    int64_t at = (int64_t)minibatch * job->dims[0].batch + i;

    return at < job->n_active ? &job->texts[job->active[at]] : NULL;
}

static int choose_bucket(struct job *job, uint64_t minibatch)
{
    int bucket = 0;

    for (int64_t i = 0; i < job->dims[0].batch; i++) {
        const struct text *text = text_at(job, minibatch, i);

        while (text && job->dims[bucket].seq < text->n)
            bucket++;
    }
    return bucket;
}

static enum vp_status next_batch(void *ctx, uint64_t minibatch,
                                 const struct vp_batch **out,
                                 struct vp_err *err)
{
    struct job *job = ctx;
    struct vp_batch *batch = &job->batch;
    int32_t *rows = batch->array[VP_ROLE_LABEL_ROWS];
    const struct vp_dims *dims;

    (void)err;
    batch->bucket = choose_bucket(job, minibatch);
    batch->n_samples = 0;
    dims = &job->dims[batch->bucket];
    for (int64_t i = 0; i < dims->batch; i++) {
        const struct text *text = text_at(job, minibatch, i);
        struct vp_sequence sequence = { .n_ids = 0 };

        if (text)
            sequence = (struct vp_sequence){ .ids = text->ids,
                                             .n_ids = text->n };
        vp_sequence_put(&sequence, dims, job->with->config->sizes.pad, i,
                        batch);
        rows[i] = text ? (int32_t)(i * dims->seq + text->n - 1) : -1;
        batch->n_samples += text != NULL;
    }
    *out = batch;
    return VP_OK;
}

/* Draws the next id of each text; on the thread of the last stage. */
static enum vp_status take_logits(void *ctx, const struct vp_logits *logits,
                                  struct vp_err *err)
{
    struct job *job = ctx;
    const struct vp_generate_config *with = job->with;
    struct text *text;

    for (int64_t i = 0; i < logits->rows &&
                        (text = text_at(job, logits->minibatch, i)) != NULL;
         i++) {
        const struct vp_sample_input input = { .logits = job->logits,
                                               .n_ids = (int)logits->cols,
                                               .history = text->ids,
                                               .n_history = (int)text->n };
        const struct vp_sample_key key = { .seed = with->seed,
                                           .sequence = (uint64_t)(text -
                                                                  job->texts),
                                           .position = (uint32_t)text->n };

        vp_logits_row(logits, i, job->logits);
        VP_TRY(vp_sample(&with->sampling, &input, &key, job->candidates,
                         &text->next, err));
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
    struct text *text = &job->texts[k];
    enum vp_text_end why = VP_TEXT_END_LENGTH;
    bool stop = false;

    text->ids[text->n++] = text->next;
    VP_TRY(sink->token(sink->ctx, k, text->next, &stop, err));
    *ended_out = true;
    if (is_end(with, text->next))
        why = VP_TEXT_END_ID;
    else if (stop)
        why = VP_TEXT_END_STOPPED;
    else if (text->n < text->most)
        *ended_out = false;
    else if (text->n < with->prompts[k].n_ids + with->max_tokens)
        why = VP_TEXT_END_POSITIONS;
    return *ended_out ? sink->end(sink->ctx, k, why, err) : VP_OK;
}

static enum vp_status run(struct job *job, struct vp_inference *inference,
                          struct vp_err *err)
{
    int64_t batch = job->dims[0].batch;
    struct vp_score score = { .loss = 0.0 };

    while (job->n_active > 0) {
        int64_t n = job->n_active;

        VP_TRY(vp_inference_run(inference, 0, (n + batch - 1) / batch, &score,
                                err));
        job->n_active = 0;
        for (int64_t i = 0; i < n; i++) {
            bool ended;

            VP_TRY(grow(job, job->active[i], &ended, err));
            if (!ended)
                job->active[job->n_active++] = job->active[i];
        }
    }
    return VP_OK;
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status open_and_run(struct job *job, bool *lost_out,
                                   struct vp_err *err)
{
    const struct vp_generate_config *with = job->with;
    const struct vp_inference_config config = {
        .config = with->config,
        .source = with->source,
        .outputs = VP_OUTPUT_LOGITS,
        .dims = job->dims,
        .n_dims = job->n_dims,
        .feed = { job, next_batch },
        .sink = { job, take_logits },
        .notice = with->notice,
        .ctx = with->ctx,
    };
    struct vp_inference *inference;
    enum vp_status st;

    VP_TRY(vp_inference_open(&config, &inference, err));
    st = run(job, inference, err);
    *lost_out = !vp_inference_free(inference);
    return st;
}

static void job_free(struct job *job)
{
    vp_sequence_batch_release(&job->batch);
    free(job->candidates);
    free(job->logits);
    free(job->active);
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
    set_dims(job);
    st = allocate(job, err);
    if (st == VP_OK) {
        start_texts(job);
        st = open_and_run(job, &lost, err);
    }
    if (!lost) /* a rank that did not return may still use it */
        job_free(job);
    return st;
}
