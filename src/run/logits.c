/* Logits of sequences: runs all of them through the model once, collects the
 * rows, and writes a safetensors file. */
#include "run/logits.h"

#include "base/host.h"
#include "ckpt/safetensors.h"
#include "run/inference.h"

#include <stdlib.h>

struct job {
    const struct vp_logits_config *with;
    bool pairs; /* source and target, for an encoder-decoder model */
    struct vp_dims dims;
    int64_t rows_each; /* rows of logits per sequence: dims.seq, or tgt_seq */
    struct vp_batch batch;
    int64_t *lengths; /* [n_sequences] */
    float *logits;    /* [n_sequences, rows_each, vocab] */
};

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Checking ----------------------------------------------------------- */

static enum vp_status check_sequences(const struct job *job, struct vp_err *err)
{
    const struct vp_logits_config *with = job->with;
    const struct vp_model_config *sizes = &with->config->sizes;

    if (with->n_sequences == 0)
        return vp_err_set(err, VP_ERR_INVALID,
                          "there is no sequence; give one or more ids");
    for (int64_t k = 0; k < with->n_sequences; k++) {
        const struct vp_sequence *s = &with->sequences[k];

        VP_TRY(vp_sequence_check(sizes, k, s->ids, s->n_ids, err));
        if (job->pairs != (s->n_target > 0))
            return vp_err_set(err, VP_ERR_INVALID,
                              job->pairs
                                  ? "sequence %lld has no decoder input; write "
                                    "SOURCE:TARGET, for example 5,6,2:2,7"
                                  : "sequence %lld has a decoder input, but "
                                    "the model has no decoder; remove it",
                              (long long)k + 1);
        if (job->pairs)
            VP_TRY(vp_sequence_check(sizes, k, s->target, s->n_target, err));
    }
    return VP_OK;
}

/* ---- Batches ------------------------------------------------------------ */

static void set_dims(struct job *job)
{
    const struct vp_logits_config *with = job->with;
    struct vp_dims *dims = &job->dims;
    int64_t batch = with->config->batch_size, longest = 1;

    for (int64_t k = 0; k < with->n_sequences; k++) {
        const struct vp_sequence *s = &with->sequences[k];

        dims->seq = max64(dims->seq, s->n_ids);
        dims->tgt_seq = max64(dims->tgt_seq, s->n_target);
        longest = max64(longest, max64(s->n_ids, s->n_target));
    }
    job->rows_each = job->pairs ? dims->tgt_seq : dims->seq;
    if (job->pairs) /* batch_size counts tokens */
        batch = max64(1, batch / longest);
    dims->batch = min64(batch, with->n_sequences);
}

static enum vp_status next_batch(void *ctx, uint64_t minibatch,
                                 const struct vp_batch **out,
                                 struct vp_err *err)
{
    static const struct vp_sequence none = { .n_ids = 0 };
    struct job *job = ctx;
    const struct vp_logits_config *with = job->with;
    const struct vp_dims *dims = &job->dims;
    int64_t first = (int64_t)minibatch * dims->batch;

    (void)err;
    for (int64_t i = 0; i < dims->batch; i++) {
        const struct vp_sequence *s = first + i < with->n_sequences
                                          ? &with->sequences[first + i]
                                          : &none;

        vp_sequence_put(s, dims, with->config->sizes.pad, i, &job->batch);
    }
    job->batch.n_samples = min64(dims->batch, with->n_sequences - first);
    *out = &job->batch;
    return VP_OK;
}

static enum vp_status take_logits(void *ctx, const struct vp_logits *logits,
                                  struct vp_err *err)
{
    struct job *job = ctx;
    int64_t begin = (int64_t)logits->minibatch * job->dims.batch *
                        job->rows_each +
                    logits->first;

    (void)err;
    for (int64_t i = 0; i < logits->rows; i++) {
        int64_t k = (begin + i) / job->rows_each;
        int64_t t = (begin + i) % job->rows_each;

        if (k < job->with->n_sequences && t < job->lengths[k])
            vp_logits_row(logits, i, job->logits + (begin + i) * logits->cols);
    }
    return VP_OK;
}

/* ---- All of it ---------------------------------------------------------- */

/* All logits stay in memory until they are written. */
static enum vp_status allocate(struct job *job, struct vp_err *err)
{
    const struct vp_logits_config *with = job->with;
    int64_t n_rows = with->n_sequences * job->rows_each;
    int64_t n_bytes = INT64_MAX;
    char needs[VP_BYTES_TEXT], has[VP_BYTES_TEXT];
    size_t left = vp_host_memory("");

    if (!vp_mul_i64(n_rows, with->config->sizes.vocab * (int64_t)sizeof(float),
                    &n_bytes) ||
        (size_t)n_bytes > left) {
        vp_bytes_texts(n_bytes, (int64_t)left, needs, has, sizeof(needs));
        return vp_err_set(err, VP_ERR_INVALID,
                          "logits of %lld positions need %s, this machine has "
                          "%s left; give fewer sequences at a time",
                          (long long)n_rows, needs, has);
    }
    job->logits = calloc(1, (size_t)n_bytes);
    job->lengths = calloc((size_t)with->n_sequences, sizeof(*job->lengths));
    VP_TRY(vp_sequence_batch_init(&job->dims, &job->batch, err));
    if (!job->logits || !job->lengths)
        return vp_err_set(err, VP_ERR_NOMEM, "logits: out of memory");
    for (int64_t k = 0; k < with->n_sequences; k++)
        job->lengths[k] = job->pairs ? with->sequences[k].n_target
                                     : with->sequences[k].n_ids;
    return VP_OK;
}

static enum vp_status run(struct job *job, bool *lost_out, struct vp_err *err)
{
    const struct vp_logits_config *with = job->with;
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

static enum vp_status write_file(const struct job *job, const char *path,
                                 struct vp_err *err)
{
    static const struct vp_st_meta meta = { "format", "pt" };
    int64_t n = job->with->n_sequences;
    struct vp_st_tensor tensors[] = {
        { .name = "logits",
          .type = VP_ST_F32,
          .n_dims = 3,
          .dims = { n, job->rows_each, job->with->config->sizes.vocab } },
        { .name = "lengths", .type = VP_ST_I64, .n_dims = 1, .dims = { n } },
    };
    const void *const data[] = { job->logits, job->lengths };

    return vp_st_write(path, tensors, data, (int)VP_COUNT_OF(tensors), &meta, 1,
                       err);
}

static void release(struct job *job)
{
    vp_sequence_batch_release(&job->batch);
    free(job->lengths);
    free(job->logits);
}

enum vp_status vp_logits_write(const struct vp_logits_config *config,
                               const char *path,
                               struct vp_logits_shape *shape_out,
                               struct vp_err *err)
{
    struct job *job = calloc(1, sizeof(*job));
    bool lost = false;
    enum vp_status st;

    if (!job)
        return vp_err_set(err, VP_ERR_NOMEM, "logits: out of memory");
    job->with = config;
    job->pairs = config->config->model->task == VP_TASK_TRANSLATION;
    st = check_sequences(job, err);
    if (st == VP_OK) {
        set_dims(job);
        st = allocate(job, err);
    }
    if (st == VP_OK)
        st = run(job, &lost, err);
    if (st == VP_OK)
        st = write_file(job, path, err);
    if (st == VP_OK)
        *shape_out = (struct vp_logits_shape){ config->n_sequences,
                                               job->rows_each,
                                               config->config->sizes.vocab };
    if (lost) /* leaked: a rank that did not return may still use it */
        return st;
    release(job);
    free(job);
    return st;
}
