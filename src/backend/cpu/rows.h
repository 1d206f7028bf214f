/* Runs row-wise kernels: one pool job runs one call, or several consecutive
 * calls, on band after band of rows. A band stays in cache from call to call,
 * and the threads synchronise once instead of after every call. */
#ifndef VP_BACKEND_CPU_ROWS_H
#define VP_BACKEND_CPU_ROWS_H

#include "backend/cpu/kernel.h"

enum { VP_MAX_RUN = 8 }; /* most calls in one job */

struct vp_rows_call {
    struct vp_cpu_rows kernel;
    const struct vp_kargs *args;
};

/* Runs `n` calls, 1..VP_MAX_RUN, that have the same number of rows. */
void vp_cpu_rows_run(const struct vp_rows_call *calls, int n);

/* For each call of a list, writes to lengths_out the number of consecutive
 * calls, beginning with it, that may run as one job: 1..VP_MAX_RUN. A part of
 * such a run may run as one job, too. */
void vp_cpu_find_runs(const struct vp_cpu_kernels *kernels, int n_threads,
                      const struct vp_program *program, enum vp_list list,
                      unsigned char *lengths_out);

#endif
