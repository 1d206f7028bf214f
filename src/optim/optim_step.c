/* The host step: one chunk is one task of the pool. */
#include "optim/chunk.h"
#include "optim/kernel.h"

#include <math.h>

struct job {
    const struct vp_optim_step *step;
    const struct vp_optim_kernels *kernels;
    struct vp_optim_coef coef[2]; /* of tensors without and with decay */
    struct vp_optim_chunk *chunks;
    int n_chunks;
};

static struct vp_optim_span chunk_span(const struct job *job,
                                       const struct vp_optim_chunk *chunk)
{
    const struct vp_optim_step *step = job->step;
    struct vp_optim_span span = {
        .n = chunk->n,
        .w = (const float *)step->w_old + chunk->begin,
        .g = step->grad + chunk->grad,
        .m = step->moment[0] + chunk->begin,
        .w_new = (float *)step->w_new + chunk->begin,
    };

    if (vp_optim_n_moments(step->config.kind) > 1)
        span.v = step->moment[1] + chunk->begin;
    return span;
}

static struct vp_optim_coef chunk_coef(const struct job *job,
                                       const struct vp_optim_chunk *chunk)
{
    return job->coef[job->step->tensors[chunk->tensor].decay];
}

static void sgd_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    const struct vp_optim_chunk *chunk = &job->chunks[task];

    (void)thread;
    job->kernels->sgd(chunk_span(job, chunk), chunk_coef(job, chunk));
}

static void adam_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    const struct vp_optim_chunk *chunk = &job->chunks[task];

    (void)thread;
    job->kernels->adam(chunk_span(job, chunk), chunk_coef(job, chunk));
}

static void lamb_measure_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    struct vp_optim_chunk *chunk = &job->chunks[task];

    (void)thread;
    job->kernels->lamb_measure(chunk_span(job, chunk), chunk_coef(job, chunk),
                               &chunk->sum[0], &chunk->sum[1]);
}

static void lamb_apply_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    const struct vp_optim_chunk *chunk = &job->chunks[task];

    (void)thread;
    job->kernels->lamb_apply(chunk_span(job, chunk), chunk_coef(job, chunk),
                             chunk->rate);
}

/* Trust ratio |w| / |u| per tensor; 1 where either norm is 0. */
static void lamb_set_rates(struct job *job)
{
    int n;

    for (int first = 0; first < job->n_chunks; first += n) {
        struct vp_optim_chunk *chunks = &job->chunks[first];
        double w2, u2, ratio;

        n = vp_optim_chunk_run(chunks, job->n_chunks - first);
        w2 = vp_optim_chunk_sum(chunks, n, 0);
        u2 = vp_optim_chunk_sum(chunks, n, 1);
        ratio = w2 > 0.0 && u2 > 0.0 ? sqrt(w2 / u2) : 1.0;
        for (int i = 0; i < n; i++)
            chunks[i].rate = (float)(job->step->lr * ratio);
    }
}

/* The direction is worked out twice rather than stored: the second pass reads
 * as many bytes either way, and needs no array when w_new is w_old. */
static void lamb_step(struct job *job, struct vp_pool *pool)
{
    vp_pool_run(pool, job->n_chunks, lamb_measure_task, job);
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

    VP_BUG_ON(step->dtype != VP_DTYPE_F32);
    switch (step->config.kind) {
    case VP_OPTIM_SGD:
        vp_pool_run(pool, job.n_chunks, sgd_task, &job);
        break;
    case VP_OPTIM_ADAM:
    case VP_OPTIM_ADAMW:
        vp_pool_run(pool, job.n_chunks, adam_task, &job);
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
