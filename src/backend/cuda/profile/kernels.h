/* What the GPU did and when, to the nanosecond, as CUPTI records it. One
 * recording at a time in a process; kernels of graphs are recorded, too. */
#ifndef VP_BACKEND_CUDA_PROFILE_KERNELS_H
#define VP_BACKEND_CUDA_PROFILE_KERNELS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel, copy or memset. */
struct vp_cuda_span {
    int64_t start_ns, end_ns;
    uint32_t id;      /* of the launch */
    uint32_t label;   /* of the launch; 0: none */
    const char *name; /* stays */
};

/* `library` is CUPTI, loaded. Labels cost the host time. */
enum vp_status vp_cuda_kernels_begin(void *library, bool labels,
                                     struct vp_err *err);
/* What the calling thread launches until the matching pop has this label;
 * the innermost counts. */
void vp_cuda_kernels_push(uint32_t label);
void vp_cuda_kernels_pop(void);
/* Waits for the device. The spans are sorted by start; free() them. */
enum vp_status vp_cuda_kernels_end(struct vp_cuda_span **spans_out,
                                   size_t *n_out, struct vp_err *err);

#endif
