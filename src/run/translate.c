/* Translation: runs the beams of several sentences through the pipeline as rows
 * of minibatches, and advances their beam searches with the logits. */
#include "run/translate.h"

#include "config/buckets.h"
#include "config/precision.h"
#include "run/inference.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHORTEST = 32,        /* length of the shortest program without a cache */
    SHORTEST_SOURCE = 16, /* shortest program for a source with a cache */
    MINIBATCHES = 8       /* per decoding step, to fill a pipeline */
};

/* Search for the translation of one sentence. */
struct search {
    int64_t sentence; /* index of the sentence */
    struct vp_beam *beam;
    int32_t *inputs; /* [n_beams, most] decoder inputs */
    int32_t *lines;  /* [n_beams, most] line of the cache for each of them */
    int64_t n;       /* ids of each input */
    float *logits;   /* [n_beams, vocab] logits after the inputs */
};

/* A row of a minibatch: beam `beam` of a search. */
struct row {
    struct search *search;
    int beam;
};

/* Rows [first, first + n) of a decoding step; further ones are padding. */
struct minibatch {
    int bucket;
    int64_t first, n;
};

/* A translation that waits for those of earlier sentences. */
struct result {
    bool ended;
    int32_t *ids;
    int n_ids;
    double score;
};

struct job {
    const struct vp_translate_config *with;
    struct vp_beam_options options;
    int most;                   /* most ids of a translation */
    struct vp_cache_size cache; /* n_lines 0: no cache */
    /* In order of length; with a cache the dims of a step, then those of
     * sources. */
    struct vp_dims dims[VP_MAX_BUCKETS];
    int n_dims;
    int64_t n_each; /* rows of a minibatch, at most */
    struct vp_batch batch;
    struct search *searches; /* [n_searches]; beam NULL: free */
    int64_t n_searches;
    struct row *rows; /* rows of this decoding step */
    int64_t n_rows;
    struct minibatch *minibatches;
    int64_t n_minibatches;
    int32_t *inputs;          /* [n_searches + 1]; the first is work space */
    int32_t *lines;           /* likewise */
    float *logits;            /* [n_searches] */
    struct vp_beam_row *next; /* [n_beams] */
    struct result *results;   /* [n_sentences] */
    int64_t n_begun, n_told;  /* sentences begun; passed to the sink */
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
                          "a %s model cannot translate; use a translation "
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

/* Appends the lengths from `length` on that sentences of `shortest` to
 * `longest` ids need: powers of two, so that the lengths of a sentence's
 * programs do not depend on other sentences, and as the last one the positions
 * of the model. */
static void add_lengths(struct job *job, int64_t length, int64_t shortest,
                        int64_t longest)
{
    int64_t positions = job->with->config->sizes.positions;

    for (; length < longest && job->n_dims < VP_MAX_BUCKETS - 1; length *= 2)
        if (length >= shortest)
            job->dims[job->n_dims++].seq = length;
    if (length < longest || length > positions)
        length = positions;
    job->dims[job->n_dims++].seq = length;
}

/* Without a cache, source and target have the same length. batch_size counts
 * tokens. */
static void set_dims(struct job *job)
{
    const struct vp_translate_config *with = job->with;
    int64_t shortest = with->config->sizes.positions, longest = 1;
    int64_t n_rows = with->n_sentences * job->options.n_beams;
    bool cached = !with->no_cache && vp_config_uses_cpu(with->config);
    int64_t n_groups = cached ? vp_config_n_stages(with->config) : MINIBATCHES;

    for (int64_t k = 0; k < with->n_sentences; k++) {
        shortest = min64(shortest, with->sentences[k].n_ids);
        longest = max64(longest, with->sentences[k].n_ids);
    }
    if (cached)
        job->dims[job->n_dims++].seq = 1;
    add_lengths(job, cached ? SHORTEST_SOURCE : SHORTEST, shortest,
                cached ? longest : max64(longest, job->most));
    longest = max64(longest, job->most);
    n_rows = min64(n_rows, max64(1, with->config->batch_size / longest));
    for (int i = 0; i < job->n_dims; i++) {
        job->dims[i].tgt_seq = cached ? 1 : job->dims[i].seq;
        job->dims[i].batch = cached && i > 0 ? 1 : n_rows;
        job->dims[i].n_labels = job->dims[i].batch;
    }
    job->n_each = n_rows;
    job->n_searches = min64(with->n_sentences,
                            max64(1, n_groups * n_rows / job->options.n_beams));
    if (cached)
        job->cache = (struct vp_cache_size){
            .n_lines = job->n_searches * job->options.n_beams,
            .n_positions = job->most,
            .n_sources = job->n_searches,
            .n_source_positions = job->dims[job->n_dims - 1].seq,
        };
}

/* Allocates a batch with room for any bucket. */
static enum vp_status allocate_batch(struct job *job, struct vp_err *err)
{
    struct vp_dims room = job->dims[job->n_dims - 1];

    room.batch = room.n_labels = job->n_each;
    VP_TRY(vp_sequence_batch_init(&room, &job->batch, err));
    VP_TRY(vp_sequence_batch_resize(&job->batch, VP_ROLE_POSITIONS, job->n_each,
                                    err));
    VP_TRY(vp_sequence_batch_resize(&job->batch, VP_ROLE_LINES,
                                    job->n_each * job->cache.n_positions, err));
    return vp_sequence_batch_resize(&job->batch, VP_ROLE_SOURCES,
                                    job->n_each * 3, err);
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
    job->minibatches = calloc(n * n_beams, sizeof(*job->minibatches));
    job->inputs = calloc((n + 1) * n_inputs, sizeof(*job->inputs));
    job->lines = calloc((n + 1) * n_inputs, sizeof(*job->lines));
    job->logits = calloc(n * n_logits, sizeof(*job->logits));
    job->next = calloc(n_beams, sizeof(*job->next));
    job->results = calloc((size_t)with->n_sentences, sizeof(*job->results));
    if (!job->searches || !job->rows || !job->minibatches || !job->inputs ||
        !job->lines || !job->logits || !job->next || !job->results)
        return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        job->searches[i].inputs = job->inputs + (i + 1) * n_inputs;
        job->searches[i].lines = job->lines + (i + 1) * n_inputs;
        job->searches[i].logits = job->logits + i * n_logits;
    }
    return allocate_batch(job, err);
}

/* ---- Logits ------------------------------------------------------------- */

/* Returns row `i` of a minibatch; NULL: the row is padding. */
static const struct row *row_at(const struct job *job, uint64_t minibatch,
                                int64_t i)
{
    const struct minibatch *it = &job->minibatches[minibatch];

    return i < it->n ? &job->rows[it->first + i] : NULL;
}

/* Returns the input of a program: all ids so far. With a cache: only the last
 * id, and the source only for a new sentence. */
static struct vp_sequence sequence_of(const struct job *job,
                                      const struct row *row)
{
    const struct search *search = row->search;
    struct vp_sequence sequence = job->with->sentences[search->sentence];

    sequence.target = search->inputs + (int64_t)row->beam * job->most;
    sequence.n_target = search->n;
    if (job->cache.n_lines == 0)
        return sequence;
    sequence.target += search->n - 1;
    sequence.n_target = 1;
    if (search->n > 1)
        sequence.n_ids = 0;
    return sequence;
}

/* Writes the places of the keys and values of row `i`; `row` NULL: padding. */
static void put_places(const struct job *job, const struct row *row, int64_t i,
                       struct vp_batch *batch)
{
    int64_t T = job->cache.n_positions;
    int32_t *lines = batch->array[VP_ROLE_LINES] + i * T;
    int32_t *source = batch->array[VP_ROLE_SOURCES] + 3 * i;
    const struct search *search = row ? row->search : NULL;

    batch->array[VP_ROLE_POSITIONS][i] = row ? (int32_t)search->n - 1 : -1;
    source[0] = source[1] = source[2] = 0;
    if (!row)
        return;
    memcpy(lines, search->lines + row->beam * T,
           (size_t)search->n * sizeof(*lines));
    source[0] = (int32_t)(search - job->searches);
    source[1] = (int32_t)job->with->sentences[search->sentence].n_ids;
    source[2] = search->n == 1 ? source[1] : 0;
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
    batch->bucket = job->minibatches[minibatch].bucket;
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
        if (job->cache.n_lines > 0)
            put_places(job, row, i, batch);
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

/* Appends a minibatch of the last `n` rows. Its bucket is the first from
 * `bucket` on that is long enough. */
static void add_minibatch(struct job *job, int64_t n, int bucket)
{
    struct minibatch *it = &job->minibatches[job->n_minibatches++];

    *it = (struct minibatch){ bucket, job->n_rows - n, n };
    for (int64_t i = 0; i < n; i++) {
        struct vp_sequence sequence = sequence_of(job,
                                                  &job->rows[it->first + i]);

        while (job->dims[it->bucket].seq < sequence.n_ids ||
               job->dims[it->bucket].tgt_seq < sequence.n_target)
            it->bucket++;
    }
}

/* Adds rows in minibatches of `n_each`: of searches that have ids (`old`), of
 * new searches (`fresh`), or of both. All beams of a new search are equal, so
 * only one is computed. */
static void plan_rows(struct job *job, bool old, bool fresh, int64_t n_each,
                      int bucket)
{
    int64_t n = 0;

    for (int64_t i = 0; i < job->n_searches; i++) {
        struct search *search = &job->searches[i];
        int n_beams = search->n > 1 ? job->options.n_beams : 1;

        if (!search->beam || !(search->n > 1 ? old : fresh))
            continue;
        for (int beam = 0; beam < n_beams; beam++) {
            job->rows[job->n_rows++] = (struct row){ search, beam };
            if (++n == n_each) {
                add_minibatch(job, n, bucket);
                n = 0;
            }
        }
    }
    if (n > 0)
        add_minibatch(job, n, bucket);
}

/* Fills `logits` of all searches with the logits of the last position of each
 * input. */
static enum vp_status compute_logits(struct job *job,
                                     struct vp_inference *inference,
                                     struct vp_err *err)
{
    struct vp_score score = { .loss = 0.0 };

    job->n_rows = job->n_minibatches = 0;
    if (job->cache.n_lines > 0) { /* each new source is its own minibatch */
        plan_rows(job, true, false, job->n_each, 0);
        plan_rows(job, false, true, 1, 1);
    } else {
        plan_rows(job, true, true, job->n_each, 0);
    }
    return vp_inference_run(inference, 0, job->n_minibatches, &score, err);
}

/* ---- Searches ----------------------------------------------------------- */

/* Begins the next sentences in searches that are free. */
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
        search->lines[0] = (int32_t)(i * job->options.n_beams);
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

/* Replaces row i of `rows` [n_beams, most] by row next[i].parent, up to the
 * length of the inputs. `copy` is work space. */
static void follow_parents(const struct job *job, const struct search *search,
                           int32_t *copy, int32_t *rows)
{
    size_t most = (size_t)job->most, n = (size_t)search->n;
    size_t n_beams = (size_t)job->options.n_beams;

    memcpy(copy, rows, n_beams * most * sizeof(*rows));
    for (size_t i = 0; i < n_beams; i++)
        memcpy(rows + i * most, copy + (size_t)job->next[i].parent * most,
               n * sizeof(*rows));
}

/* Replaces each input by that of its parent plus a token. Keys and values of
 * the token go to the beam's own line of the cache, where that position is not
 * yet used; those of earlier positions stay in the lines of the beams that
 * computed them. */
static void grow(struct job *job, struct search *search)
{
    int64_t first = (search - job->searches) * job->options.n_beams;

    follow_parents(job, search, job->inputs, search->inputs);
    follow_parents(job, search, job->lines, search->lines);
    for (int i = 0; i < job->options.n_beams; i++) {
        int64_t at = (int64_t)i * job->most + search->n;

        search->inputs[at] = job->next[i].token;
        search->lines[at] = (int32_t)(first + i);
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

/* Passes results to the sink, up to the first sentence that has not ended. */
static enum vp_status pass_results(struct job *job, struct vp_err *err)
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
        VP_TRY(pass_results(job, err));
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
        .cache = job->cache,
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
    free(job->lines);
    free(job->inputs);
    free(job->minibatches);
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
    if (!lost) /* leaked otherwise: a rank that did not return may use it */
        job_free(job);
    return st;
}
