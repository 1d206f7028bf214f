/* A set of numbers, of the tensors that one launch updates or of their chunks,
 * stored as a few ranges. The struct is small enough to be passed to a kernel
 * by value, so a captured launch needs no device memory for it. */
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

/* Adds `number`, to the last range if it is adjacent. Returns false if a new
 * range is needed and all VP_CUDA_RANGES are in use. */
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

/* Returns element number `index` of the set; `index` must be below
 * vp_cuda_ranges_count(). */
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
