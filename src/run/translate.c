#include "run/translate.h"

#include "config/buckets.h"
#include "run/inference.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHORTEST = 32,  /* length of the shortest program */
    MINIBATCHES = 8 /* of a decoding step: what a pipeline is filled with */
};

/* A sentence that is searched. */
struct search {
    int64_t sentence; /* its number */
    struct vp_beam *beam;
    int32_t *inputs; /* [n_beams, most] decoder inputs */
    int64_t n;       /* ids of each input */
    float *logits;   /* [n_beams, vocab] that follow the inputs */
};

/* A row of a minibatch: beam `beam` of a search. */
struct row {
    struct search *search;
    int beam;
};

/* The translation of a sentence that waits for those before it. */
struct result {
    bool ended;
    int32_t *ids;
    int n_ids;
    double score;
};

struct job {
    const struct vp_translate_config *with;
    struct vp_beam_options options;
    int most;                            /* ids of a translation */
    struct vp_dims dims[VP_MAX_BUCKETS]; /* in order of growing lengths */
    int n_dims;
    struct vp_batch batch;
    struct search *searches; /* [n_searches]; beam NULL: free */
    int64_t n_searches;
    struct row *rows; /* of this decoding step */
    int64_t n_rows;
    int32_t *inputs;          /* of all searches, and of one more: work space */
    float *logits;            /* of all searches */
    struct vp_beam_row *next; /* [n_beams] */
    struct result *results;   /* [n_sentences] */
    int64_t n_begun, n_told;  /* sentences */
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static enum vp_status no_memory(struct vp_err *err)
{
    return vp_err_set(err, VP_ERR_NOMEM,
                      "translating: out of memory; lower batch_size");
}

/* ---- Preparing ---------------------------------------------------------- */

static enum vp_status check(const struct job *job, struct vp_err *err)
{
    const struct vp_translate_config *with = job->with;
    const struct vp_model_config *sizes = &with->config->sizes;

    if (with->config->model->task != VP_TASK_TRANSLATION)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "a %s model does not translate; take a translation "
                          "model",
                          with->config->model->name);
    if (with->n_sentences < 1 || with->search.max_tokens < 1)
        return vp_err_set(err, VP_ERR_INVALID,
                          "there is nothing to translate; give a sentence and "
                          "max_tokens of at least 1");
    if (with->search.start < 0 || with->search.start >= sizes->vocab)
        return vp_err_set(err, VP_ERR_INVALID,
                          "the decoder starts with %d, which is no id of the "
                          "model; its ids are 0 to %lld",
                          (int)with->search.start, (long long)sizes->vocab - 1);
    for (int64_t k = 0; k < with->n_sentences; k++)
        VP_TRY(vp_sequence_check(sizes, k, with->sentences[k].ids,
                                 with->sentences[k].n_ids, err));
    return vp_beam_check(&job->options, err);
}

/* One length for source and target. Powers of two, so that the lengths of a
 * sentence's programs do not depend on the other sentences, and at last the
 * positions of the model. batch_size counts tokens. */
static void set_dims(struct job *job)
{
    const struct vp_translate_config *with = job->with;
    int64_t positions = with->config->sizes.positions;
    int64_t shortest = positions, longest = job->most, length = SHORTEST;
    int64_t n_rows = with->n_sentences * job->options.n_beams;

    for (int64_t k = 0; k < with->n_sentences; k++) {
        shortest = min64(shortest, with->sentences[k].n_ids);
        longest = max64(longest, with->sentences[k].n_ids);
    }
    for (; length < longest && job->n_dims < VP_MAX_BUCKETS - 1; length *= 2)
        if (length >= shortest)
            job->dims[job->n_dims++].seq = length;
    if (length < longest || length > positions)
        length = positions;
    job->dims[job->n_dims++].seq = length;

    n_rows = min64(n_rows, max64(1, with->config->batch_size / length));
    for (int i = 0; i < job->n_dims; i++) {
        job->dims[i].tgt_seq = job->dims[i].seq;
        job->dims[i].batch = job->dims[i].n_labels = n_rows;
    }
    job->n_searches = min64(
        with->n_sentences,
        max64(1, MINIBATCHES * n_rows / job->options.n_beams));
}

static enum vp_status allocate(struct job *job, struct vp_err *err)
{
    const struct vp_translate_config *with = job->with;
    size_t n_beams = (size_t)job->options.n_beams;
    size_t n_inputs = n_beams * (size_t)job->most;
    size_t n_logits = n_beams * (size_t)with->config->sizes.vocab;
    size_t n = (size_t)job->n_searches;

    job->searches = calloc(n, sizeof(*job->searches));
    job->rows = calloc(n * n_beams, sizeof(*job->rows));
    job->inputs = calloc((n + 1) * n_inputs, sizeof(*job->inputs));
    job->logits = calloc(n * n_logits, sizeof(*job->logits));
    job->next = calloc(n_beams, sizeof(*job->next));
    job->results = calloc((size_t)with->n_sentences, sizeof(*job->results));
    if (!job->searches || !job->rows || !job->inputs || !job->logits ||
        !job->next || !job->results)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        job->searches[i].inputs = job->inputs + (i + 1) * n_inputs;
        job->searches[i].logits = job->logits + i * n_logits;
    }
    return vp_sequence_batch_init(&job->dims[job->n_dims - 1], &job->batch,
                                  err);
}

/* ---- Logits ------------------------------------------------------------- */

/* Row `i` of a minibatch; NULL: the row is padding. */
static const struct row *row_at(const struct job *job, uint64_t minibatch,
                                int64_t i)
{
    int64_t at = (int64_t)minibatch * job->dims[0].batch + i;

    return at < job->n_rows ? &job->rows[at] : NULL;
}

static struct vp_sequence sequence_of(const struct job *job,
                                      const struct row *row)
{
    const struct search *search = row->search;
    struct vp_sequence sequence = job->with->sentences[search->sentence];

    sequence.target = search->inputs + (int64_t)row->beam * job->most;
    sequence.n_target = search->n;
    return sequence;
}

static int choose_bucket(const struct job *job, uint64_t minibatch)
{
    const struct row *row;
    int bucket = 0;

    for (int64_t i = 0;
         i < job->dims[0].batch && (row = row_at(job, minibatch, i)) != NULL;
         i++) {
        struct vp_sequence sequence = sequence_of(job, row);

        while (job->dims[bucket].seq < max64(sequence.n_ids, sequence.n_target))
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
    int32_t *label_rows = batch->array[VP_ROLE_LABEL_ROWS];
    const struct vp_dims *dims;

    (void)err;
    batch->bucket = choose_bucket(job, minibatch);
    batch->n_samples = 0;
    dims = &job->dims[batch->bucket];
    for (int64_t i = 0; i < dims->batch; i++) {
        const struct row *row = row_at(job, minibatch, i);
        struct vp_sequence sequence = { .n_ids = 0 };

        label_rows[i] = -1;
        if (row) {
            sequence = sequence_of(job, row);
            label_rows[i] = (int32_t)(i * dims->tgt_seq + sequence.n_target -
                                      1);
            batch->n_samples++;
        }
        vp_sequence_put(&sequence, dims, job->with->config->sizes.pad, i,
                        batch);
    }
    *out = batch;
    return VP_OK;
}

static enum vp_status take_logits(void *ctx, const struct vp_logits *logits,
                                  struct vp_err *err)
{
    struct job *job = ctx;
    const struct row *row;

    (void)err;
    for (int64_t i = 0;
         i < logits->rows &&
         (row = row_at(job, logits->minibatch, logits->first + i)) != NULL;
         i++)
        vp_logits_row(logits, i,
                      row->search->logits + row->beam * logits->cols);
    return VP_OK;
}

/* Fills `logits` of all searches: those of the last position of each input. Before
 * the first step all beams of a sentence are equal, and only one is computed. */
static enum vp_status compute_logits(struct job *job,
                                     struct vp_inference *inference,
                                     struct vp_err *err)
{
    int64_t batch = job->dims[0].batch;
    struct vp_score score = { .loss = 0.0 };

    job->n_rows = 0;
    for (int64_t i = 0; i < job->n_searches; i++) {
        struct search *search = &job->searches[i];
        int n_beams = search->n > 1 ? job->options.n_beams : 1;

        for (int beam = 0; search->beam && beam < n_beams; beam++)
            job->rows[job->n_rows++] = (struct row){ search, beam };
    }
    return vp_inference_run(inference, 0, (job->n_rows + batch - 1) / batch,
                            &score, err);
}

/* ---- Searches ----------------------------------------------------------- */

/* Begins the next sentences where a search has ended. */
static enum vp_status begin(struct job *job, struct vp_err *err)
{
    for (int64_t i = 0; i < job->n_searches; i++) {
        struct search *search = &job->searches[i];

        if (search->beam || job->n_begun == job->with->n_sentences)
            continue;
        VP_TRY(
            vp_beam_create(&job->options, 1, &job->most, &search->beam, err));
        search->sentence = job->n_begun++;
        search->inputs[0] = job->with->search.start;
        search->n = 1;
    }
    return VP_OK;
}

static enum vp_status keep_result(struct job *job, struct search *search,
                                  struct vp_err *err)
{
    struct result *result = &job->results[search->sentence];

    result->ids = calloc((size_t)job->most, sizeof(*result->ids));
    if (!result->ids)
        return no_memory(err);
    if (vp_beam_n_results(search->beam, 0) > 0)
        vp_beam_result(search->beam, 0, 0, result->ids, &result->n_ids,
                       &result->score);
    result->ended = true;
    vp_beam_free(search->beam);
    search->beam = NULL;
    return VP_OK;
}

/* Input i becomes a copy of input next[i].parent, and next[i].token. */
static void grow(struct job *job, struct search *search)
{
    size_t most = (size_t)job->most, n = (size_t)search->n;
    size_t n_beams = (size_t)job->options.n_beams;

    memcpy(job->inputs, search->inputs, n_beams * most * sizeof(*job->inputs));
    for (size_t i = 0; i < n_beams; i++) {
        int32_t *input = search->inputs + i * most;

        memcpy(input, job->inputs + (size_t)job->next[i].parent * most,
               n * sizeof(*input));
        input[n] = job->next[i].token;
    }
    search->n++;
}

static enum vp_status advance(struct job *job, struct vp_err *err)
{
    for (int64_t i = 0; i < job->n_searches; i++) {
        struct search *search = &job->searches[i];

        if (!search->beam)
            continue;
        VP_TRY(vp_beam_step(search->beam, search->logits, job->next, err));
        if (vp_beam_is_done(search->beam))
            VP_TRY(keep_result(job, search, err));
        else
            grow(job, search);
    }
    return VP_OK;
}

/* Gives the sink the sentences that no earlier one is missing for. */
static enum vp_status tell(struct job *job, struct vp_err *err)
{
    const struct vp_translation_sink *sink = &job->with->sink;

    while (job->n_told < job->with->n_sentences &&
           job->results[job->n_told].ended) {
        struct result *result = &job->results[job->n_told];
        const struct vp_translation translation = { result->ids, result->n_ids,
                                                    result->score };

        VP_TRY(sink->take(sink->ctx, job->n_told++, &translation, err));
        free(result->ids);
        result->ids = NULL;
    }
    return VP_OK;
}

static enum vp_status run(struct job *job, struct vp_inference *inference,
                          struct vp_err *err)
{
    while (job->n_told < job->with->n_sentences) {
        VP_TRY(begin(job, err));
        VP_TRY(compute_logits(job, inference, err));
        VP_TRY(advance(job, err));
        VP_TRY(tell(job, err));
    }
    return VP_OK;
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status open_and_run(struct job *job, bool *lost_out,
                                   struct vp_err *err)
{
    const struct vp_translate_config *with = job->with;
    const struct vp_inference_config config = {
        .config = with->config,
        .source = with->source,
        .job = with->job,
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
    for (int64_t i = 0; job->searches && i < job->n_searches; i++)
        vp_beam_free(job->searches[i].beam);
    for (int64_t k = 0; job->results && k < job->with->n_sentences; k++)
        free(job->results[k].ids);
    vp_sequence_batch_release(&job->batch);
    free(job->results);
    free(job->next);
    free(job->logits);
    free(job->inputs);
    free(job->rows);
    free(job->searches);
    free(job);
}

enum vp_status vp_translate(const struct vp_translate_config *config,
                            struct vp_err *err)
{
    struct job *job = calloc(1, sizeof(*job));
    bool lost = false;
    enum vp_status st;

    if (!job)
        return no_memory(err);
    job->with = config;
    job->options = config->search.beam;
    job->options.n_ids = (int)config->config->sizes.vocab;
    st = check(job, err);
    if (st == VP_OK) {
        job->most = (int)min64(config->search.max_tokens,
                               config->config->sizes.positions);
        set_dims(job);
        st = allocate(job, err);
    }
    if (st == VP_OK)
        st = open_and_run(job, &lost, err);
    if (!lost) /* a rank that did not return may still use it */
        job_free(job);
    return st;
}
