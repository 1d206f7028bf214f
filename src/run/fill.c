/* Fill-mask: runs all sequences through the model once, and picks the best ids
 * of each gap from its logits. */
#include "run/fill.h"

#include "run/inference.h"

#include <stdlib.h>

struct job {
    const struct vp_fill_config *with;
    struct vp_dims dims;
    struct vp_batch batch;
    struct vp_filling *gaps; /* gaps of all sequences, in order */
    int64_t n_gaps;
    int64_t *first; /* [n_sequences + 1] first gap of each sequence */
    int64_t n_each; /* rows of logits per sequence: the most gaps of any */
    float *logits;  /* [vocab] logits of one gap */
    struct vp_sample_candidate *candidates;
};

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- Preparing ---------------------------------------------------------- */

static int64_t count_gaps(const struct vp_sequence *sequence, int32_t mask)
{
    int64_t n = 0;

    for (int64_t t = 0; t < sequence->n_ids; t++)
        n += sequence->ids[t] == mask;
    return n;
}

static enum vp_status measure(struct job *job, struct vp_err *err)
{
    const struct vp_fill_config *with = job->with;
    struct vp_dims *dims = &job->dims;

    dims->batch = with->config->batch_size;
    if (dims->batch > with->n_sequences)
        dims->batch = with->n_sequences;
    for (int64_t k = 0; k < with->n_sequences; k++) {
        const struct vp_sequence *s = &with->sequences[k];
        int64_t n = count_gaps(s, with->mask);

        VP_TRY(
            vp_sequence_check(&with->config->sizes, k, s->ids, s->n_ids, err));
        if (n == 0)
            return vp_err_set(err, VP_ERR_INVALID,
                              "sequence %lld has no gap; write [MASK] in the "
                              "place of a word",
                              (long long)k + 1);
        dims->seq = max64(dims->seq, s->n_ids);
        job->n_each = max64(job->n_each, n);
        job->n_gaps += n;
    }
    dims->n_labels = dims->batch * job->n_each;
    return VP_OK;
}

static enum vp_status allocate(struct job *job, struct vp_err *err)
{
    const struct vp_fill_config *with = job->with;
    size_t vocab = (size_t)with->config->sizes.vocab;

    job->gaps = calloc((size_t)job->n_gaps + 1, sizeof(*job->gaps));
    job->first = calloc((size_t)with->n_sequences + 1, sizeof(*job->first));
    job->logits = calloc(vocab, sizeof(*job->logits));
    job->candidates = calloc(vocab, sizeof(*job->candidates));
    if (!job->gaps || !job->first || !job->logits || !job->candidates)
        return vp_err_set(err, VP_ERR_NOMEM, "filling gaps: out of memory");
    return vp_sequence_batch_init(&job->dims, &job->batch, err);
}

static void find_gaps(struct job *job)
{
    const struct vp_fill_config *with = job->with;
    int64_t n = 0;

    for (int64_t k = 0; k < with->n_sequences; k++) {
        for (int64_t t = 0; t < with->sequences[k].n_ids; t++)
            if (with->sequences[k].ids[t] == with->mask)
                job->gaps[n++] = (struct vp_filling){ .sequence = k,
                                                      .position = t };
        job->first[k + 1] = n;
    }
}

/* ---- Running ------------------------------------------------------------ */

/* Returns gap `g` of row `i` of a minibatch; NULL: there is none. */
static struct vp_filling *gap_at(const struct job *job, uint64_t minibatch,
                                 int64_t i, int64_t g)
{
    int64_t k = (int64_t)minibatch * job->dims.batch + i;

    return k < job->with->n_sequences && job->first[k] + g < job->first[k + 1]
               ? &job->gaps[job->first[k] + g]
               : NULL;
}

static enum vp_status next_batch(void *ctx, uint64_t minibatch,
                                 const struct vp_batch **out,
                                 struct vp_err *err)
{
    static const struct vp_sequence none = { .n_ids = 0 };
    struct job *job = ctx;
    const struct vp_fill_config *with = job->with;
    const struct vp_dims *dims = &job->dims;
    int32_t *rows = job->batch.array[VP_ROLE_LABEL_ROWS];

    (void)err;
    job->batch.n_samples = 0;
    for (int64_t i = 0; i < dims->batch; i++) {
        int64_t k = (int64_t)minibatch * dims->batch + i;
        bool is_there = k < with->n_sequences;

        vp_sequence_put(is_there ? &with->sequences[k] : &none, dims,
                        with->config->sizes.pad, i, &job->batch);
        job->batch.n_samples += is_there;
        for (int64_t g = 0; g < job->n_each; g++) {
            const struct vp_filling *gap = gap_at(job, minibatch, i, g);
            int64_t row = gap ? i * dims->seq + gap->position : -1;

            rows[i * job->n_each + g] = (int32_t)row;
        }
    }
    *out = &job->batch;
    return VP_OK;
}

/* Moves the most likely candidates to the gap; of equal ones, those with
 * smaller ids. */
static void choose_best(struct vp_sample_candidate *candidates, int n,
                        struct vp_filling *gap)
{
    while (gap->n < VP_FILL_BEST && gap->n < n) {
        int best = 0;

        for (int i = 1; i < n; i++)
            if (candidates[i].probability > candidates[best].probability)
                best = i;
        gap->best[gap->n++] = candidates[best];
        candidates[best].probability = -1.0;
    }
}

static enum vp_status take_logits(void *ctx, const struct vp_logits *logits,
                                  struct vp_err *err)
{
    static const struct vp_sample_options all = { .repetition_penalty = 1.0,
                                                  .temperature = 1.0,
                                                  .top_p = 1.0 };
    struct job *job = ctx;
    const struct vp_sample_input input = { .logits = job->logits,
                                           .n_ids = (int)logits->cols };

    for (int64_t i = 0; i < logits->rows; i++) {
        int64_t row = logits->first + i;
        struct vp_filling *gap = gap_at(job, logits->minibatch,
                                        row / job->n_each, row % job->n_each);
        int n;

        if (!gap)
            continue;
        vp_logits_row(logits, i, job->logits);
        VP_TRY(vp_sample_filter(&all, &input, job->candidates, &n, err));
        choose_best(job->candidates, n, gap);
    }
    return VP_OK;
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status run(struct job *job, bool *lost_out, struct vp_err *err)
{
    const struct vp_fill_config *with = job->with;
    const struct vp_inference_config config = {
        .config = with->config,
        .source = with->source,
        .job = with->job,
        .outputs = VP_OUTPUT_LOGITS,
        .dims = &job->dims,
        .n_dims = 1,
        .feed = { job, next_batch },
        .sink = { job, take_logits },
        .notice = with->notice,
        .ctx = with->ctx,
    };
    int64_t n_batches = (with->n_sequences + job->dims.batch - 1) /
                        job->dims.batch;

    return vp_inference_once(&config, n_batches, lost_out, err);
}

static void job_free(struct job *job)
{
    vp_sequence_batch_release(&job->batch);
    free(job->candidates);
    free(job->logits);
    free(job->first);
    free(job->gaps);
    free(job);
}

enum vp_status vp_fill(const struct vp_fill_config *config,
                       struct vp_filling **fillings_out, int64_t *n_out,
                       struct vp_err *err)
{
    struct job *job;
    bool lost = false;
    enum vp_status st;

    if (config->config->model->task != VP_TASK_MASKED_LM)
        return vp_err_set(err, VP_ERR_UNSUPPORTED,
                          "a %s model cannot fill gaps; use a bert model",
                          config->config->model->name);
    job = calloc(1, sizeof(*job));
    if (!job)
        return vp_err_set(err, VP_ERR_NOMEM, "filling gaps: out of memory");
    job->with = config;
    st = measure(job, err);
    if (st == VP_OK)
        st = allocate(job, err);
    if (st == VP_OK) {
        find_gaps(job);
        st = run(job, &lost, err);
    }
    if (st == VP_OK) {
        *fillings_out = job->gaps;
        *n_out = job->n_gaps;
        job->gaps = NULL;
    }
    if (!lost) /* leaked otherwise: a rank that did not return may use it */
        job_free(job);
    return st;
}
