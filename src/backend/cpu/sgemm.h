/* oneDNN's product of floats, on the calling thread. */
#ifndef VP_BACKEND_CPU_SGEMM_H
#define VP_BACKEND_CPU_SGEMM_H

#include "backend/cpu/product.h"

/* Rows [i, i + m) and columns [j, j + n) of a product of floats. */
void vp_cpu_sgemm(const struct vp_gemm *gemm, int64_t i, int64_t m, int64_t j,
                  int64_t n);

#endif
