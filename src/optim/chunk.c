/* Cuts tensors into chunks and adds the sums of a tensor's chunks. */
#include "optim/chunk.h"

int vp_optim_n_chunks(const struct vp_optim_tensor *tensors, int n_tensors)
{
    int64_t n = 0;

    for (int i = 0; i < n_tensors; i++)
        n += (tensors[i].n + VP_OPTIM_CHUNK - 1) / VP_OPTIM_CHUNK;
    return (int)n;
}

int vp_optim_cut(const struct vp_optim_tensor *tensors, int n_tensors,
                 struct vp_optim_chunk *chunks)
{
    int n_chunks = 0;

    for (int i = 0; i < n_tensors; i++) {
        for (int64_t at = 0; at < tensors[i].n; at += VP_OPTIM_CHUNK) {
            int64_t left = tensors[i].n - at;

            chunks[n_chunks++] = (struct vp_optim_chunk){
                .begin = tensors[i].offset + at,
                .grad = tensors[i].grad + at,
                .n = (int)(left < VP_OPTIM_CHUNK ? left : VP_OPTIM_CHUNK),
                .tensor = i,
            };
        }
    }
    return n_chunks;
}

double vp_optim_chunk_sum(const struct vp_optim_chunk *chunks, int n_chunks,
                          int which)
{
    double sum = 0.0;

    for (int i = 0; i < n_chunks; i++)
        sum += chunks[i].sum[which];
    return sum;
}

int vp_optim_chunk_run(const struct vp_optim_chunk *chunks, int n_chunks)
{
    int n = 1;

    while (n < n_chunks && chunks[n].tensor == chunks[0].tensor)
        n++;
    return n;
}
