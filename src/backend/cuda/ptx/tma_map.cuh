/* Tensor maps: descriptors in which the TMA of compute capability 9.0 finds the
 * address and shape of a tensor and the size of the boxes that tma.cuh
 * copies. */
#ifndef VP_BACKEND_CUDA_PTX_TMA_MAP_CUH
#define VP_BACKEND_CUDA_PTX_TMA_MAP_CUH

#include "backend/cuda/device.cuh"

#include <cuda.h>

typedef CUresult (*vp_tma_encode_fn)(CUtensorMap *, CUtensorMapDataType,
                                     cuuint32_t, void *, const cuuint64_t *,
                                     const cuuint64_t *, const cuuint32_t *,
                                     const cuuint32_t *, CUtensorMapInterleave,
                                     CUtensorMapSwizzle, CUtensorMapL2promotion,
                                     CUtensorMapFloatOOBfill);

static inline vp_tma_encode_fn vp_tma_find_encode(void)
{
    cudaDriverEntryPointQueryResult found;
    void *encode = NULL;

    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode,
                                         12000, cudaEnableDefault,
                                         &found) == cudaSuccess &&
        found == cudaDriverEntryPointSuccess)
        return (vp_tma_encode_fn)encode;
    cudaGetLastError();
    return NULL;
}

/* Returns cuTensorMapEncodeTiled() of the driver library, which is looked up at
 * run time because it is not linked; NULL if the driver does not have it. */
static inline vp_tma_encode_fn vp_tma_encode(void)
{
    static const vp_tma_encode_fn encode = vp_tma_find_encode();

    return encode;
}

/* Matrices of two-byte elements that follow each other in memory. Boxes are 64
 * columns wide and become tiles in the layout of wgmma.cuh. */
struct vp_tma_tensor {
    enum vp_dtype dtype;
    const void *data;
    int64_t cols, rows;
    int64_t n_matrices; /* 0: one matrix, for vp_tma_copy() */
    int64_t ld;         /* elements between rows; a multiple of 8 */
    int box_rows;
    CUtensorMapL2promotion fetch; /* bytes fetched into L2 at a time */
};

/* Needs vp_tma_encode() != NULL. The callers check sizes and alignment, so
 * encoding cannot fail. */
static inline CUtensorMap vp_tma_map(const struct vp_tma_tensor *t)
{
    const cuuint64_t dims[] = { (cuuint64_t)t->cols, (cuuint64_t)t->rows,
                                (cuuint64_t)t->n_matrices };
    const cuuint64_t stride[] = { 2 * (cuuint64_t)t->ld,
                                  2 * (cuuint64_t)(t->ld * t->rows) };
    const cuuint32_t box[] = { 64, (cuuint32_t)t->box_rows, 1 };
    const cuuint32_t step[] = { 1, 1, 1 };
    CUtensorMap map;
    CUresult result = vp_tma_encode()(
        &map,
        t->dtype == VP_DTYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        t->n_matrices > 0 ? 3 : 2, (void *)t->data, dims, stride, box, step,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, t->fetch,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

    VP_BUG_ON(result != CUDA_SUCCESS);
    return map;
}

#endif
