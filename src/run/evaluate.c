/* Evaluation: reads the held-out data, runs the model forward, adds up loss and
 * accuracy, and for CHID counts right answers. */
#include "run/evaluate.h"

#include "base/clock.h"
#include "config/buckets.h"
#include "job/job_phase.h"
#include "run/inference.h"
#include "run/samples.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Minibatches between two checks of `stop`. */
enum { PART = 64 };

/* Multiple-choice questions (CHID), with one row of logits each. The first
 * stage calls next_questions() for batches, the last one passes logits to
 * take_answers(). */
struct questions {
    const struct vp_data *data;
    const int32_t *choices; /* ids of the answers */
    int n_choices;          /* 0: the data has no questions */
    struct vp_dims dims;    /* dims of the data's batches */
    struct vp_batch *full;  /* a batch of the data */
    struct vp_batch batch;  /* `full` with other labels; shares its arrays */
    int32_t *rows, *labels; /* [dims.batch] */
    int32_t *answers;       /* [n_batches, dims.batch] right choices; -1: no
                               question */
    float *logits;          /* [vocab] logits of one question */
    int64_t n_questions, n_right;
};

struct evaluation {
    const struct vp_evaluate_config *with;
    struct vp_dims dims[VP_MAX_BUCKETS];
    int n_dims;
    struct vp_samples samples;
    struct questions questions;
    struct vp_inference *inference;
};

/* ---- Questions ---------------------------------------------------------- */

static int32_t *answers_of(const struct questions *q, uint64_t minibatch)
{
    return q->answers + (int64_t)minibatch * q->dims.batch;
}

/* Makes a batch with one labelled row per sample. */
static enum vp_status next_questions(void *ctx, uint64_t minibatch,
                                     const struct vp_batch **out,
                                     struct vp_err *err)
{
    struct questions *q = ctx;
    const int32_t *labels = q->full->array[VP_ROLE_LABELS];

    VP_TRY(vp_data_fill(q->data, minibatch, q->full, err));
    VP_TRY(vp_data_answers(q->data, minibatch, answers_of(q, minibatch), err));
    for (int64_t i = 0; i < q->dims.batch; i++) {
        q->rows[i] = q->labels[i] = -1;
        for (int64_t t = i * q->dims.seq; t < (i + 1) * q->dims.seq; t++)
            if (labels[t] >= 0) {
                q->rows[i] = (int32_t)t;
                q->labels[i] = labels[t];
            }
    }
    q->batch = *q->full;
    q->batch.array[VP_ROLE_LABEL_ROWS] = q->rows;
    q->batch.array[VP_ROLE_LABELS] = q->labels;
    *out = &q->batch;
    return VP_OK;
}

/* Returns the choice with the largest logit, the first one of equal logits. */
static int best_choice(const struct questions *q)
{
    int best = 0;

    for (int k = 1; k < q->n_choices; k++)
        if (q->logits[q->choices[k]] > q->logits[q->choices[best]])
            best = k;
    return best;
}

static enum vp_status take_answers(void *ctx, const struct vp_logits *logits,
                                   struct vp_err *err)
{
    struct questions *q = ctx;
    const int32_t *answers = answers_of(q, logits->minibatch) + logits->first;

    (void)err;
    for (int64_t i = 0; i < logits->rows; i++) {
        if (answers[i] < 0)
            continue;
        vp_logits_row(logits, i, q->logits);
        q->n_questions++;
        q->n_right += best_choice(q) == answers[i];
    }
    return VP_OK;
}

static enum vp_status open_questions(struct evaluation *run, struct vp_err *err)
{
    struct questions *q = &run->questions;
    const struct vp_data *data = run->samples.eval;
    size_t n_rows = (size_t)run->dims[0].batch;

    q->n_choices = vp_data_choices(data, &q->choices);
    if (q->n_choices == 0)
        return VP_OK;
    q->data = data;
    q->dims = run->dims[0];
    run->dims[0].n_labels = run->dims[0].batch;
    q->rows = calloc(n_rows, sizeof(*q->rows));
    q->labels = calloc(n_rows, sizeof(*q->labels));
    q->answers = calloc(n_rows * (size_t)vp_data_info(data)->n_batches,
                        sizeof(*q->answers));
    q->logits = calloc((size_t)run->with->config->sizes.vocab,
                       sizeof(*q->logits));
    if (!q->rows || !q->labels || !q->answers || !q->logits ||
        vp_batch_create(data, &q->full) != VP_OK)
        return vp_err_set(err, VP_ERR_NOMEM, "evaluation: out of memory");
    return VP_OK;
}

/* ---- All of it ---------------------------------------------------------- */

static enum vp_status open_model(struct evaluation *run, struct vp_err *err)
{
    const struct vp_evaluate_config *with = run->with;
    struct vp_inference_config config = {
        .config = with->config,
        .source = with->source,
        .job = with->job,
        .outputs = VP_OUTPUT_LOSS,
        .dims = run->dims,
        .n_dims = run->n_dims,
        .data = run->samples.eval,
        .notice = with->notice,
        .ctx = with->ctx,
    };

    if (run->questions.n_choices > 0) {
        config.outputs |= VP_OUTPUT_LOGITS;
        config.feed = (struct vp_feed){ &run->questions, next_questions };
        config.sink = (struct vp_sink){ &run->questions, take_answers };
    }
    return vp_inference_open(&config, &run->inference, err);
}

/* All processes open the data, so that they agree on it; only the lead reads
 * batches. */
static enum vp_status open_samples(struct evaluation *run, struct vp_err *err)
{
    const struct vp_evaluate_config *with = run->with;
    struct vp_samples_config samples = {
        .config = with->config,
        .world = with->job ? with->job->world : NULL,
        .dims = run->dims,
        .eval_only = true,
        .whole = with->whole,
        .stop = with->stop,
        .notice = with->notice,
        .ctx = with->ctx,
    };

    enum vp_status st;

    if (with->job)
        vp_job_phase_set(VP_JOB_PHASE_DATA, with->config->data_dir);
    samples.n_dims = run->n_dims = vp_buckets_make(with->config, run->dims);
    st = vp_samples_open(&samples, &run->samples, err);
    if (with->job)
        with->job->agreed = run->samples.agreed;
    return st;
}

static enum vp_status set_up(struct evaluation *run, struct vp_err *err)
{
    VP_TRY(open_samples(run, err));
    VP_TRY(open_questions(run, err));
    return open_model(run, err);
}

/* Processes other than the lead: run their stages until the lead closes the
 * job. */
static enum vp_status follow(struct evaluation *run, struct vp_err *err)
{
    const struct vp_inference_config config = { .config = run->with->config,
                                                .source = run->with->source,
                                                .job = run->with->job,
                                                .notice = run->with->notice,
                                                .ctx = run->with->ctx };

    VP_TRY(open_samples(run, err));
    return vp_inference_follow(&config, err);
}

static enum vp_status run_all(struct evaluation *run, struct vp_evaluation *out,
                              struct vp_err *err)
{
    const struct vp_evaluate_config *with = run->with;
    int64_t n = out->n_batches;

    for (int64_t m = 0; m < n; m += PART) {
        int64_t part = n - m < PART ? n - m : PART;

        if (with->stop && *with->stop)
            return vp_err_set(err, VP_ERR_INTERRUPTED, "interrupted");
        VP_TRY(vp_inference_run(run->inference, m, part, &out->score, err));
        if (with->progress)
            with->progress(with->ctx, m + part, n);
    }
    return VP_OK;
}

static void note_memory(const struct evaluation *run, struct vp_evaluation *out)
{
    const struct vp_stage_price *prices = vp_inference_prices(run->inference,
                                                              &out->n_stages);

    for (int s = 0; s < out->n_stages; s++)
        if (prices[s].memory.total > out->memory)
            out->memory = prices[s].memory.total;
}

/* If a rank did not return, all that it may still use is leaked on purpose. */
static void tear_down(struct evaluation *run)
{
    if (!vp_inference_free(run->inference))
        return;
    vp_samples_close(&run->samples);
    vp_batch_free(run->questions.full);
    free(run->questions.rows);
    free(run->questions.labels);
    free(run->questions.answers);
    free(run->questions.logits);
    free(run);
}

enum vp_status vp_evaluate(const struct vp_evaluate_config *config,
                           struct vp_evaluation *out, struct vp_err *err)
{
    struct evaluation *run = calloc(1, sizeof(*run));
    struct vp_evaluation found = { .n_batches = 0 };
    enum vp_status st;
    int64_t start_ns;
    bool is_lead;

    if (!run)
        return vp_err_set(err, VP_ERR_NOMEM, "evaluation: out of memory");
    run->with = config;
    is_lead = vp_inference_job_is_lead(config->job);
    st = is_lead ? set_up(run, err) : follow(run, err);
    if (st == VP_OK && is_lead) {
        const struct vp_data_info *info = vp_data_info(run->samples.eval);

        snprintf(found.data, sizeof(found.data), "%s", info->what);
        found.n_samples = info->n_samples;
        found.n_batches = info->n_batches;
        note_memory(run, &found);
        start_ns = vp_clock_ns();
        st = run_all(run, &found, err);
        found.seconds = vp_clock_seconds(start_ns, vp_clock_ns());
        found.n_questions = run->questions.n_questions;
        found.n_right = run->questions.n_right;
    }
    tear_down(run);
    if (st == VP_OK)
        *out = found;
    return st;
}

/* ---- JSON --------------------------------------------------------------- */

/* NAN and infinities are null in JSON. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *share(double part, double all)
{
    return real(all > 0.0 ? part / all : (double)NAN);
}

enum vp_status vp_evaluation_json(const struct vp_evaluation *evaluation,
                                  const struct vp_config *config,
                                  const struct vp_model_source *source,
                                  char **text_out)
{
    const struct vp_evaluation *e = evaluation;
    const struct vp_score *score = &e->score;
    json_t *object = json_object();

    json_object_set_new(object, "path",
                        json_string(vp_model_source_path(source)));
    json_object_set_new(object, "model_type", json_string(config->model->name));
    json_object_set_new(object, "data", json_string(e->data));
    json_object_set_new(object, "samples", json_integer(e->n_samples));
    json_object_set_new(object, "batches", json_integer(e->n_batches));
    json_object_set_new(object, "seq_length", json_integer(config->seq_length));
    json_object_set_new(object, "predictions",
                        json_integer((json_int_t)score->n_labels));
    json_object_set_new(object, "loss", real(vp_score_loss(score)));
    json_object_set_new(object, "perplexity", real(exp(vp_score_loss(score))));
    json_object_set_new(object, "correct",
                        json_integer((json_int_t)score->top1));
    json_object_set_new(object, "accuracy",
                        share(score->top1, score->n_labels));
    json_object_set_new(object, "top5_accuracy",
                        share(score->top5, score->n_labels));
    if (e->n_questions > 0) {
        json_object_set_new(object, "questions", json_integer(e->n_questions));
        json_object_set_new(object, "answer_accuracy",
                            share((double)e->n_right, (double)e->n_questions));
    }
    json_object_set_new(object, "stages", json_integer(e->n_stages));
    json_object_set_new(object, "stage_bytes", json_integer(e->memory));
    json_object_set_new(object, "seconds", real(e->seconds));
    *text_out = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return *text_out ? VP_OK : VP_ERR_NOMEM;
}
