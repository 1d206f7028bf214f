/* A step of the optimizer on the host: each chunk is a task of the thread
 * pool. */
#include "optim/chunk.h"
#include "optim/kernel.h"

#include <math.h>

struct job {
    const struct vp_optim_step *step;
    const struct vp_optim_kernels *kernels;
    struct vp_optim_coef coef[2]; /* [1]: for tensors with decay */
    struct vp_optim_chunk *chunks;
    int n_chunks;
};

/* BF16 weights are joined to floats in spans of JOINED elements, which stay in
 * the level-1 cache until they are split again. */
enum { JOINED = 256 };
_Static_assert(JOINED % VP_OPTIM_BLOCK == 0,
               "sums over spans need the bits of sums over a chunk of floats");

/* Returns the span of `n` elements of a chunk from element `at` on. Weights
 * that are stored in halves are joined to floats in `joined`. */
static struct vp_optim_span span_of(const struct job *job,
                                    const struct vp_optim_chunk *chunk, int at,
                                    int n, float *joined)
{
    const struct vp_optim_step *step = job->step;
    int64_t begin = chunk->begin + at, own = begin - step->first;
    struct vp_optim_span span = {
        .n = n,
        .g = step->grad + chunk->grad + at,
        .m = step->moment[0] + own,
        .w = joined,
        .w_new = joined,
    };

    if (vp_optim_n_moments(step->config.kind) > 1)
        span.v = step->moment[1] + own;
    if (step->dtype == VP_DTYPE_F32) {
        span.w = (const float *)step->w_old + begin;
        span.w_new = (float *)step->w_new + begin;
    } else {
        job->kernels->join(joined, (const uint16_t *)step->w_old + begin,
                           (const uint16_t *)step->master + own, n);
    }
    return span;
}

/* Splits new BF16 weights of a span into their halves; nothing to do with
 * F32. */
static void split_span(const struct job *job,
                       const struct vp_optim_chunk *chunk, int at,
                       const struct vp_optim_span *span)
{
    const struct vp_optim_step *step = job->step;
    int64_t begin = chunk->begin + at;

    if (step->dtype != VP_DTYPE_F32)
        job->kernels->split((uint16_t *)step->w_new + begin,
                            (uint16_t *)step->master + begin - step->first,
                            span->w_new, span->n);
}

/* Returns the number of elements of the span that begins at element `at`. */
static int next_span(const struct job *job, const struct vp_optim_chunk *chunk,
                     int at)
{
    int left = chunk->n - at;

    return job->step->dtype == VP_DTYPE_F32 || left < JOINED ? left : JOINED;
}

static struct vp_optim_coef chunk_coef(const struct job *job,
                                       const struct vp_optim_chunk *chunk)
{
    return job->coef[job->step->tensors[chunk->tensor].decay];
}

/* SGD, Adam and AdamW: one pass over the chunk. */
static void one_pass_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    const struct vp_optim_chunk *chunk = &job->chunks[task];
    bool sgd = job->step->config.kind == VP_OPTIM_SGD;
    float joined[JOINED];
    int n;

    (void)thread;
    for (int at = 0; at < chunk->n; at += n) {
        struct vp_optim_span span;

        n = next_span(job, chunk, at);
        span = span_of(job, chunk, at, n, joined);
        if (sgd)
            job->kernels->sgd(span, chunk_coef(job, chunk));
        else
            job->kernels->adam(span, chunk_coef(job, chunk));
        split_span(job, chunk, at, &span);
    }
}

static void lamb_measure_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    struct vp_optim_chunk *chunk = &job->chunks[task];
    float joined[JOINED];
    int n;

    (void)thread;
    for (int at = 0; at < chunk->n; at += n) {
        n = next_span(job, chunk, at);
        job->kernels->lamb_measure(span_of(job, chunk, at, n, joined),
                                   chunk_coef(job, chunk), &chunk->sum[0],
                                   &chunk->sum[1]);
    }
}

static void lamb_apply_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    const struct vp_optim_chunk *chunk = &job->chunks[task];
    float joined[JOINED];
    int n;

    (void)thread;
    for (int at = 0; at < chunk->n; at += n) {
        struct vp_optim_span span;

        n = next_span(job, chunk, at);
        span = span_of(job, chunk, at, n, joined);
        job->kernels->lamb_apply(span, chunk_coef(job, chunk), chunk->rate);
        split_span(job, chunk, at, &span);
    }
}

double vp_optim_trust_ratio(double weights, double direction)
{
    return weights > 0.0 && direction > 0.0 ? sqrt(weights / direction) : 1.0;
}

/* Sets the rate of all chunks: lr times the trust ratio |w| / |u| of their
 * tensor. */
static void lamb_set_rates(struct job *job)
{
    const double *ratios = job->step->ratios;
    int n;

    for (int first = 0; first < job->n_chunks; first += n) {
        struct vp_optim_chunk *chunks = &job->chunks[first];
        double ratio;

        n = vp_optim_chunk_run(chunks, job->n_chunks - first);
        ratio = ratios ? ratios[chunks->tensor]
                       : vp_optim_trust_ratio(vp_optim_chunk_sum(chunks, n, 0),
                                              vp_optim_chunk_sum(chunks, n, 1));
        for (int i = 0; i < n; i++)
            chunks[i].rate = (float)(job->step->lr * ratio);
    }
}

static void lamb_give_squares(const struct job *job, double (*squares)[2])
{
    int n;

    for (int first = 0; first < job->n_chunks; first += n) {
        const struct vp_optim_chunk *chunks = &job->chunks[first];

        n = vp_optim_chunk_run(chunks, job->n_chunks - first);
        for (int k = 0; k < 2; k++)
            squares[chunks->tensor][k] = vp_optim_chunk_sum(chunks, n, k);
    }
}

/* The direction is computed twice rather than stored: the second pass would
 * read as much memory from a stored direction, which needs an array of its own
 * if w_new is w_old. */
static void lamb_step(struct job *job, struct vp_pool *pool)
{
    if (!job->step->ratios)
        vp_pool_run(pool, job->n_chunks, lamb_measure_task, job);
    if (job->step->squares_out) {
        lamb_give_squares(job, job->step->squares_out);
        return;
    }
    lamb_set_rates(job);
    vp_pool_run(pool, job->n_chunks, lamb_apply_task, job);
}

void vp_optim_step_host(const struct vp_optim_step *step, struct vp_pool *pool,
                        void *scratch)
{
    struct job job = {
        .step = step,
        .kernels = vp_optim_kernels(),
        .coef = { vp_optim_coef_of(step, false), vp_optim_coef_of(step, true) },
        .chunks = scratch,
        .n_chunks = vp_optim_cut(step->tensors, step->n_tensors, scratch),
    };

    VP_BUG_ON(step->dtype != VP_DTYPE_F32 && step->dtype != VP_DTYPE_BF16);
    switch (step->config.kind) {
    case VP_OPTIM_SGD:
    case VP_OPTIM_ADAM:
    case VP_OPTIM_ADAMW:
        vp_pool_run(pool, job.n_chunks, one_pass_task, &job);
        break;
    case VP_OPTIM_LAMB:
        lamb_step(&job, pool);
        break;
    default:
        VP_BUG_ON(step->config.kind >= VP_OPTIM_KIND_COUNT);
    }
}

size_t vp_optim_scratch_bytes(const struct vp_optim_tensor *tensors,
                              int n_tensors)
{
    return (size_t)vp_optim_n_chunks(tensors, n_tensors) *
           sizeof(struct vp_optim_chunk);
}
