/* A linear layer with few rows, as in decoding. */
#ifndef VP_BACKEND_CUDA_PRODUCT_FEW_ROWS_H
#define VP_BACKEND_CUDA_PRODUCT_FEW_ROWS_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VP_FEW_ROWS = 8 }; /* maximum number of rows */

/* out [rows, cols] = act(z), z = x weight^T + bias; x [rows, depth], weight
 * [cols, depth]. The activation is computed from z before it is rounded. */
struct vp_few_rows {
    int64_t rows, cols, depth;
    enum vp_dtype dtype;
    enum vp_act act;
    const void *x, *weight;
    const void *bias; /* [cols], or NULL */
    void *z;          /* receives z; NULL: not stored */
    void *out;
};

void vp_cuda_few_rows(const struct vp_few_rows *layer, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
