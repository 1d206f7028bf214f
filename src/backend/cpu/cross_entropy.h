/* The kernels of cross_entropy, the loss. The last function returns their
 * scratch bytes. */
#ifndef VP_BACKEND_CPU_CROSS_ENTROPY_H
#define VP_BACKEND_CPU_CROSS_ENTROPY_H

#include "backend/cpu/kernel.h"

void vp_cpu_cross_entropy_f(const struct vp_kargs *args);
void vp_cpu_cross_entropy_b(const struct vp_kargs *args);
size_t vp_cpu_cross_entropy_scratch(const struct vp_graph *graph,
                                    const struct vp_op *op,
                                    enum vp_phase phase);

#endif
