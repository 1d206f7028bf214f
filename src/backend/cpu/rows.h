/* Kernels of rows: one pool job takes band after band of rows through one call
 * or through several that follow each other. A band stays in cache from call
 * to call, and the threads meet once instead of after every call. */
#ifndef VP_BACKEND_CPU_ROWS_H
#define VP_BACKEND_CPU_ROWS_H

#include "backend/cpu/kernel.h"

enum { VP_MAX_RUN = 8 }; /* calls in one job */

struct vp_rows_call {
    struct vp_cpu_rows kernel;
    const struct vp_kargs *args;
};

/* Runs 1 .. VP_MAX_RUN calls with the same number of rows. */
void vp_cpu_rows_run(const struct vp_rows_call *calls, int n);

/* How many calls of a list, from each call on, may run as one job: 1 or more.
 * Any part of such a run may, too. */
void vp_cpu_find_runs(const struct vp_cpu_kernels *kernels, int n_threads,
                      const struct vp_program *program, enum vp_list list,
                      unsigned char *lengths_out);

#endif
