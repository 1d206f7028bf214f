/* How elementwise and row-wise kernels are cut into tasks. The cut depends on
 * the shape alone, so the number of threads does not change results. */
#ifndef VP_BACKEND_CPU_CHUNK_H
#define VP_BACKEND_CPU_CHUNK_H

#include <stdint.h>

/* The range [0, total) in `n` pieces of `size`; the last one may be smaller. */
struct vp_chunks {
    int64_t total, size;
    int n;
};

struct vp_range {
    int64_t begin, end;
};

static inline struct vp_chunks vp_chunks_of(int64_t total, int64_t size)
{
    return (struct vp_chunks){ total, size, (int)((total + size - 1) / size) };
}

static inline struct vp_range vp_chunk(const struct vp_chunks *chunks,
                                       int64_t i)
{
    int64_t begin = i * chunks->size, left = chunks->total - begin;

    return (struct vp_range){
        begin, begin + (left < chunks->size ? left : chunks->size)
    };
}

/* Elements per task: at least 20 us of work, which outweighs waking a
 * thread. */
#define VP_CHUNK_ELEMENTS 65536

/* Cuts between rows of `cols` elements, about VP_CHUNK_ELEMENTS to a chunk. */
static inline struct vp_chunks vp_chunks_rows(int64_t rows, int64_t cols)
{
    int64_t size = VP_CHUNK_ELEMENTS / cols;

    return vp_chunks_of(rows, size > 1 ? size : 1);
}

/* Cuts rows for sums over rows: each chunk writes a partial sum to scratch, and
 * these, at most 32, are then added in order. A chunk has at least 32 rows. */
static inline struct vp_chunks vp_chunks_sums(int64_t rows)
{
    int64_t size = (rows + 31) / 32;

    return vp_chunks_of(rows, size > 32 ? size : 32);
}

#endif
