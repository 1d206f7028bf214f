/* A linear layer of few rows, as decoding has them. */
#ifndef VP_BACKEND_CUDA_PRODUCT_FEW_ROWS_H
#define VP_BACKEND_CUDA_PRODUCT_FEW_ROWS_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VP_FEW_ROWS = 8 }; /* rows at most */

/* out [rows, cols] = act(z), z = x weight^T + bias; x [rows, depth], weight
 * [cols, depth]. z is float until it is stored. */
struct vp_few_rows {
    int64_t rows, cols, depth;
    enum vp_dtype dtype;
    enum vp_act act;
    const void *x, *weight;
    const void *bias; /* [cols], or NULL */
    void *z;          /* NULL: not wanted */
    void *out;
};

void vp_cuda_few_rows(const struct vp_few_rows *layer, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
