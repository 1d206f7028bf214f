/* The kernels of reduce_scatter and all_gather, over the members of a
 * tensor-parallel group. The last function returns their scratch bytes. */
#ifndef VP_BACKEND_CPU_ROW_SLICES_H
#define VP_BACKEND_CPU_ROW_SLICES_H

#include "backend/cpu/kernel.h"

void vp_cpu_reduce_scatter_f(const struct vp_kargs *args);
void vp_cpu_reduce_scatter_b(const struct vp_kargs *args);
void vp_cpu_all_gather_f(const struct vp_kargs *args);
void vp_cpu_all_gather_b(const struct vp_kargs *args);
size_t vp_cpu_row_slices_scratch(const struct vp_graph *graph,
                                 const struct vp_op *op, enum vp_phase phase);

#endif
