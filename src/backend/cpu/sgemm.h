/* A part of a product of floats, computed by oneDNN on the calling thread. */
#ifndef VP_BACKEND_CPU_SGEMM_H
#define VP_BACKEND_CPU_SGEMM_H

#include "backend/cpu/product.h"

/* Computes rows [i, i + m) and columns [j, j + n) of the product; reads neither
 * gemm->m nor gemm->n. */
void vp_cpu_sgemm(const struct vp_gemm *gemm, int64_t i, int64_t m, int64_t j,
                  int64_t n);

#endif
