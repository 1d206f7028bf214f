/* Adds rows of a matrix to rows of a table selected by an index, as in the
 * backward of an embedding, without atomics: rows are sorted by index, and one
 * task sums all rows of one table row, in their order, in floats. */
#ifndef VP_BACKEND_CPU_SCATTER_H
#define VP_BACKEND_CPU_SCATTER_H

#include "backend/cpu/kernel.h"

/* dst[index[i]] += scale * src[i] for all i < n with index[i] >= 0.
 * dst: [dst_rows, cols], src: [n, cols]. */
struct vp_scatter {
    enum vp_dtype dtype; /* type of dst */
    void *dst;
    int64_t dst_rows, cols;
    enum vp_dtype src_dtype;
    const void *src;
    const int32_t *index; /* below dst_rows */
    int64_t n;
    float scale;
    bool add;      /* false: dst is set to zero first */
    void *scratch; /* bytes: vp_scatter_bytes(dst_rows, n) */
};

void vp_cpu_scatter(struct vp_pool *pool, const struct vp_scatter *scatter);
size_t vp_scatter_bytes(int64_t dst_rows, int64_t n);

#endif
