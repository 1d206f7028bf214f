/* The call of oneDNN's sgemm for a part of a product. */
#include "backend/cpu/sgemm.h"

#include "base/status.h"

#include <dnnl.h>

void vp_cpu_sgemm(const struct vp_gemm *gemm, int64_t i, int64_t m, int64_t j,
                  int64_t n)
{
    const struct vp_factor *a = &gemm->a, *b = &gemm->b;
    const float *from_a = (const float *)a->data +
                          i * (a->transposed ? 1 : a->ld);
    const float *from_b = (const float *)b->data +
                          j * (b->transposed ? b->ld : 1);
    dnnl_status_t status;

    status = dnnl_sgemm(a->transposed ? 'T' : 'N', b->transposed ? 'T' : 'N', m,
                        n, gemm->k, gemm->alpha, from_a, a->ld, from_b, b->ld,
                        gemm->beta, gemm->c + i * gemm->ldc + j, gemm->ldc);
    VP_BUG_ON(status != dnnl_success);
}
