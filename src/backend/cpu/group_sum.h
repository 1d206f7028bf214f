/* The kernels of group_sum and group_copy, sums over the members of a
 * tensor-parallel group. The last function returns their scratch bytes. */
#ifndef VP_BACKEND_CPU_GROUP_SUM_H
#define VP_BACKEND_CPU_GROUP_SUM_H

#include "backend/cpu/kernel.h"

void vp_cpu_group_sum_f(const struct vp_kargs *args);
void vp_cpu_group_sum_w(const struct vp_kargs *args, int64_t begin,
                        int64_t end);
void vp_cpu_group_sum_w_end(const struct vp_kargs *args);
void vp_cpu_group_copy_b(const struct vp_kargs *args);
size_t vp_cpu_group_sum_scratch(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_phase phase);

#endif
