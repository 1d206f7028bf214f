/* Adding rows to the rows of a table that their index names, without atomics:
 * rows are sorted by index, each table row is summed by one task, in the order
 * of the rows, in floats. */
#ifndef VP_BACKEND_CPU_SCATTER_H
#define VP_BACKEND_CPU_SCATTER_H

#include "backend/cpu/kernel.h"

/* dst[index[i]] += scale * src[i] for all i < n with index[i] >= 0.
 * dst: [dst_rows, cols], src: [n, cols]. */
struct vp_scatter {
    enum vp_dtype dtype; /* of dst */
    void *dst;
    int64_t dst_rows, cols;
    enum vp_dtype src_dtype;
    const void *src;
    const int32_t *index; /* below dst_rows */
    int64_t n;
    float scale;
    bool add;      /* false: dst is set to zero first */
    void *scratch; /* vp_scatter_bytes() */
};

void vp_cpu_scatter(struct vp_pool *pool, const struct vp_scatter *scatter);
size_t vp_scatter_bytes(int64_t dst_rows, int64_t n);

#endif
