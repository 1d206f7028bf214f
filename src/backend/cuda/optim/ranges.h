/* A set of numbers: tensors that one launch updates, or their chunks. Those
 * that come one after the other share a range, and the ranges are few enough to
 * go to a kernel by value: a captured launch needs no memory of its own. */
#ifndef VP_BACKEND_CUDA_OPTIM_RANGES_H
#define VP_BACKEND_CUDA_OPTIM_RANGES_H

#include <stdbool.h>

#if defined(__CUDACC__)
#define VP_RANGES_INLINE static inline __host__ __device__
#else
#define VP_RANGES_INLINE static inline
#endif

enum { VP_CUDA_RANGES = 32 };

struct vp_cuda_range {
    int begin, end;
};

struct vp_cuda_ranges {
    int n;
    struct vp_cuda_range at[VP_CUDA_RANGES];
};

/* Appends; false: there is no room. */
VP_RANGES_INLINE bool vp_cuda_ranges_add(struct vp_cuda_ranges *ranges,
                                         int number)
{
    struct vp_cuda_range *next = ranges->at + ranges->n;

    if (ranges->n > 0 && number == next[-1].begin - 1) {
        next[-1].begin--;
        return true;
    }
    if (ranges->n > 0 && number == next[-1].end) {
        next[-1].end++;
        return true;
    }
    if (ranges->n == VP_CUDA_RANGES)
        return false;
    next->begin = number;
    next->end = number + 1;
    ranges->n++;
    return true;
}

VP_RANGES_INLINE int vp_cuda_ranges_count(const struct vp_cuda_ranges *ranges)
{
    int count = 0;

    for (int i = 0; i < ranges->n; i++)
        count += ranges->at[i].end - ranges->at[i].begin;
    return count;
}

/* Number `index` of them, below their count. */
VP_RANGES_INLINE int vp_cuda_ranges_get(const struct vp_cuda_ranges *ranges,
                                        int index)
{
    int i = 0;

    while (index >= ranges->at[i].end - ranges->at[i].begin) {
        index -= ranges->at[i].end - ranges->at[i].begin;
        i++;
    }
    return ranges->at[i].begin + index;
}

#endif
