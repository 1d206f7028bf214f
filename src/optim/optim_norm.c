/* Gradient norms and clipping. */
#include "optim/chunk.h"
#include "optim/kernel.h"

#include <limits.h>
#include <math.h>

struct sum_job {
    const struct vp_optim_kernels *kernels;
    struct vp_optim_chunk *chunks;
    const float *grad;
};

static void sum_chunk(void *ctx, int task, int thread)
{
    const struct sum_job *job = ctx;
    struct vp_optim_chunk *chunk = &job->chunks[task];

    (void)thread;
    chunk->sum[0] = job->kernels->sum_squares(job->grad + chunk->grad,
                                              chunk->n);
}

void vp_optim_sum_squares_host(const struct vp_optim_tensor *tensors,
                               int n_tensors, const float *grad,
                               double *sums_out, struct vp_pool *pool,
                               void *scratch)
{
    struct sum_job job = { vp_optim_kernels(), scratch, grad };
    int n_chunks = vp_optim_cut(tensors, n_tensors, job.chunks);
    int n;

    vp_pool_run(pool, n_chunks, sum_chunk, &job);
    for (int i = 0; i < n_tensors; i++)
        sums_out[i] = 0.0;
    for (int first = 0; first < n_chunks; first += n) {
        struct vp_optim_chunk *chunks = &job.chunks[first];

        n = vp_optim_chunk_run(chunks, n_chunks - first);
        sums_out[chunks->tensor] = vp_optim_chunk_sum(chunks, n, 0);
    }
}

/* Returns the smallest block number above `block`; INT_MAX if there is none. */
static int next_block(const struct vp_optim_tensor *tensors, int n_tensors,
                      int block)
{
    int next = INT_MAX;

    for (int i = 0; i < n_tensors; i++)
        if (tensors[i].block > block && tensors[i].block < next)
            next = tensors[i].block;
    return next;
}

double vp_optim_norm(const struct vp_optim_tensor *tensors, int n_tensors,
                     const double *sums)
{
    int block = next_block(tensors, n_tensors, INT_MIN);
    double total = 0.0;

    while (block != INT_MAX) {
        double sum = 0.0;

        for (int i = 0; i < n_tensors; i++)
            if (tensors[i].block == block)
                sum += sums[i];
        total += sum;
        block = next_block(tensors, n_tensors, block);
    }
    return sqrt(total);
}

float vp_optim_clip_scale(double norm, float grad_clip)
{
    if (grad_clip <= 0.0f || !isfinite(norm) || norm <= grad_clip)
        return 1.0f;
    return (float)(grad_clip / norm);
}
