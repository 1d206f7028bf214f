/* Tensors cut into chunks, the tasks of the pool. The cut depends on the
 * sizes of the tensors alone, so sums per chunk, added in chunk order, have
 * the same bits on any number of threads. */
#ifndef VP_OPTIM_CHUNK_H
#define VP_OPTIM_CHUNK_H

#include "optim/optim.h"

/* Elements [begin, begin + n) of tensor `tensor`; of the gradients, those from
 * `grad` on. */
struct vp_optim_chunk {
    int64_t begin, grad;
    int n;
    int tensor;
    double sum[2]; /* what a pass found in this chunk */
    float rate;    /* LAMB: lr times the trust ratio of its tensor */
};

int vp_optim_n_chunks(const struct vp_optim_tensor *tensors, int n_tensors);

/* Writes all chunks, tensor by tensor, with zero sums; returns their number. */
int vp_optim_cut(const struct vp_optim_tensor *tensors, int n_tensors,
                 struct vp_optim_chunk *chunks);

/* The sum[which] of a run of chunks that belong to one tensor, in order. */
double vp_optim_chunk_sum(const struct vp_optim_chunk *chunks, int n_chunks,
                          int which);

/* How many chunks from the first belong to the same tensor as the first. */
int vp_optim_chunk_run(const struct vp_optim_chunk *chunks, int n_chunks);

#endif
