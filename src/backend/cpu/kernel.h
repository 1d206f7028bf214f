/* The tables of CPU kernels. What a kernel is given is in backend/args.h. */
#ifndef VP_BACKEND_CPU_KERNEL_H
#define VP_BACKEND_CPU_KERNEL_H

#include "backend/args.h"
#include "base/pool.h"

typedef void (*vp_cpu_kernel_fn)(const struct vp_kargs *args);

/* Rows [begin, end) of a call that makes each row of its results from the same
 * rows of its inputs; all have as many rows as the operator's output. The
 * range lies in one chunk of vp_chunks_sums(), whose rows come in order from
 * one thread, a multiple of four at a time: sums over rows may go on. */
typedef void (*vp_cpu_rows_fn)(const struct vp_kargs *args, int64_t begin,
                               int64_t end);

struct vp_cpu_rows {
    vp_cpu_rows_fn fn;    /* NULL: not a kernel of rows */
    vp_cpu_kernel_fn end; /* after all rows; NULL: nothing is left to do */
};

struct vp_cpu_kernels {
    /* NULL where the operator has no kernel for the phase. */
    vp_cpu_kernel_fn fn[VP_OP_KIND_COUNT][VP_PHASE_COUNT];
    /* The same for calls that may share a pool job with their neighbours. */
    struct vp_cpu_rows rows[VP_OP_KIND_COUNT][VP_PHASE_COUNT];
    /* Bytes of scratch for a call; NULL means none. */
    size_t (*scratch_bytes)(const struct vp_graph *graph,
                            const struct vp_op *op, enum vp_phase phase,
                            int n_threads);
};

extern const struct vp_cpu_kernels vp_cpu_fast;    /* kernels for use */
extern const struct vp_cpu_kernels vp_cpu_ref_f32; /* plain-C twins */
extern const struct vp_cpu_kernels vp_cpu_ref_f64; /* the same in double */
/* The twins in float between BF16 tensors. The kernels for use are for both. */
extern const struct vp_cpu_kernels vp_cpu_ref_bf16;

#endif
