/* Tensors cut into chunks, the tasks of the pool. The cut depends on the
 * sizes of the tensors alone, so sums per chunk, added in chunk order, have
 * the same bits on any number of threads. */
#ifndef VP_OPTIM_CHUNK_H
#define VP_OPTIM_CHUNK_H

#include "optim/optim.h"

/* Elements of tensor `tensor`: [begin, begin + n) of the arrays of a step, and
 * [grad, grad + n) of the gradients. */
struct vp_optim_chunk {
    int64_t begin, grad;
    int n;
    int tensor;
    double sum[2]; /* sums of squares over this chunk; LAMB: of the weights and
                      of the direction */
    float rate;    /* LAMB: lr times the trust ratio of its tensor */
};

int vp_optim_n_chunks(const struct vp_optim_tensor *tensors, int n_tensors);

/* Writes all chunks, tensor by tensor, with zero sums; returns their number. */
int vp_optim_cut(const struct vp_optim_tensor *tensors, int n_tensors,
                 struct vp_optim_chunk *chunks);

/* Returns the sum of sum[which] over chunks of one tensor, added in order. */
double vp_optim_chunk_sum(const struct vp_optim_chunk *chunks, int n_chunks,
                          int which);

/* Returns the number of chunks at the start of `chunks` that belong to the
 * tensor of the first one. */
int vp_optim_chunk_run(const struct vp_optim_chunk *chunks, int n_chunks);

#endif
