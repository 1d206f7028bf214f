/* The tables of CPU kernels. Their arguments are described in
 * backend/args.h. */
#ifndef VP_BACKEND_CPU_KERNEL_H
#define VP_BACKEND_CPU_KERNEL_H

#include "backend/args.h"
#include "base/pool.h"

typedef void (*vp_cpu_kernel_fn)(const struct vp_kargs *args);

/* A row-wise kernel: computes rows [begin, end) of a call in which each row of
 * the results depends only on the same row of the inputs, and all these tensors
 * have the number of rows of the operator's output. The range lies in one chunk
 * of vp_chunks_sums(). One thread gets all ranges of a chunk, in ascending
 * order; the length of each but the last is a multiple of four. So a kernel may
 * add up sums over the rows of a chunk from call to call. */
typedef void (*vp_cpu_rows_fn)(const struct vp_kargs *args, int64_t begin,
                               int64_t end);

struct vp_cpu_rows {
    vp_cpu_rows_fn fn;    /* NULL: the kernel is not row-wise */
    vp_cpu_kernel_fn end; /* optional: called once after all rows */
};

struct vp_cpu_kernels {
    /* NULL where the operator has no kernel for the phase. */
    vp_cpu_kernel_fn fn[VP_OP_KIND_COUNT][VP_PHASE_COUNT];
    /* Row-wise kernels: such calls may share a pool job with their
     * neighbours. */
    struct vp_cpu_rows rows[VP_OP_KIND_COUNT][VP_PHASE_COUNT];
    /* Bytes of scratch for a call; NULL means none. */
    size_t (*scratch_bytes)(const struct vp_graph *graph,
                            const struct vp_op *op, enum vp_phase phase,
                            int n_threads);
};

extern const struct vp_cpu_kernels vp_cpu_fast; /* optimised; F32 and BF16 */
/* Reference kernels in plain C, in float and in double. */
extern const struct vp_cpu_kernels vp_cpu_ref_f32;
extern const struct vp_cpu_kernels vp_cpu_ref_f64;
/* Reference kernels for BF16 tensors: they compute in float. */
extern const struct vp_cpu_kernels vp_cpu_ref_bf16;

#endif
