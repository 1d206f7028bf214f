/* Start and end of everything that the GPU runs, in nanoseconds, as recorded by
 * CUPTI. There is one recording at a time in a process. Kernels of CUDA graphs
 * are recorded, too. */
#ifndef VP_BACKEND_CUDA_PROFILE_KERNELS_H
#define VP_BACKEND_CUDA_PROFILE_KERNELS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kernel, copy or memset. */
struct vp_cuda_span {
    int64_t start_ns, end_ns;
    uint32_t id;      /* CUPTI's number of the launch */
    uint32_t label;   /* label of the launch; 0: none */
    const char *name; /* never freed */
};

/* Starts a recording. `library`: handle of libcupti from dlopen(). `labels`:
 * also record labels, which costs time on the host. VP_ERR_UNSUPPORTED if CUPTI
 * is missing or refuses. */
enum vp_status vp_cuda_kernels_begin(void *library, bool labels,
                                     struct vp_err *err);
/* Gives a label to everything that the calling thread launches until the
 * matching pop. Of nested labels the innermost counts. */
void vp_cuda_kernels_push(uint32_t label);
void vp_cuda_kernels_pop(void);
/* Waits for the device and ends the recording. `spans_out` is sorted by start;
 * the caller frees it with free(), also after VP_ERR_NOMEM, which means that
 * records were lost. */
enum vp_status vp_cuda_kernels_end(struct vp_cuda_span **spans_out,
                                   size_t *n_out, struct vp_err *err);

#endif
