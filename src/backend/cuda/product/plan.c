/* Descriptions of products for cuBLASLt, and running them. */
#include "backend/cuda/product/plan.h"

#include <stdlib.h>

static cudaDataType_t type_of(enum vp_dtype dtype)
{
    switch (dtype) {
    case VP_DTYPE_BF16:
        return CUDA_R_16BF;
    case VP_DTYPE_F16:
        return CUDA_R_16F;
    default:
        return CUDA_R_32F;
    }
}

void vp_cuda_plan_free(struct vp_cuda_plan *product)
{
    if (product->desc)
        cublasLtMatmulDescDestroy(product->desc);
    if (product->a)
        cublasLtMatrixLayoutDestroy(product->a);
    if (product->b)
        cublasLtMatrixLayoutDestroy(product->b);
    if (product->d)
        cublasLtMatrixLayoutDestroy(product->d);
    free(product);
}

static bool set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                const void *value, size_t n_bytes)
{
    return cublasLtMatmulDescSetAttribute(desc, what, value, n_bytes) ==
           CUBLAS_STATUS_SUCCESS;
}

/* Layout of a column-major matrix without padding between columns. */
static bool make_layout(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                        int64_t rows, int64_t cols)
{
    return cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)cols,
                                      rows) == CUBLAS_STATUS_SUCCESS;
}

bool vp_cuda_plan_describe(struct vp_cuda *cuda, struct vp_cuda_plan *p)
{
    const struct vp_product *key = &p->key;
    cublasOperation_t op_a = key->a_t ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = key->b_t ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = key->gelu   ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                  : key->bias ? CUBLASLT_EPILOGUE_BIAS
                                              : CUBLASLT_EPILOGUE_DEFAULT;
    cublasComputeType_t compute = key->type == VP_DTYPE_F32 && cuda->tf32
                                      ? CUBLAS_COMPUTE_32F_FAST_TF32
                                      : CUBLAS_COMPUTE_32F;

    return cublasLtMatmulDescCreate(&p->desc, compute, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof(op_a)) &&
           set(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof(op_b)) &&
           set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
               sizeof(epilogue)) &&
           (!key->gelu || set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                              &key->m, sizeof(key->m))) &&
           make_layout(&p->a, type_of(key->type), key->a_t ? key->k : key->m,
                       key->a_t ? key->m : key->k) &&
           make_layout(&p->b, type_of(key->type), key->b_t ? key->n : key->k,
                       key->b_t ? key->k : key->n) &&
           make_layout(&p->d, type_of(key->type_out), key->m, key->n);
}

static bool prefer(cublasLtMatmulPreference_t preference, uint32_t sums)
{
    const uint64_t workspace = VP_CUDA_WORKSPACE;
    const uint32_t align = VP_TENSOR_ALIGN;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t n_bytes;
    } wishes[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8 },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, 4 },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align, 4 },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align, 4 },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align, 4 },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align, 4 },
    };

    for (size_t i = 0; i < VP_COUNT_OF(wishes); i++)
        if (cublasLtMatmulPreferenceSetAttribute(
                preference, wishes[i].what, wishes[i].value,
                wishes[i].n_bytes) != CUBLAS_STATUS_SUCCESS)
            return false;
    return true;
}

int vp_cuda_suggest(struct vp_cuda *cuda, const struct vp_cuda_plan *p,
                    uint32_t sums, int most,
                    cublasLtMatmulHeuristicResult_t *suggested_out)
{
    cublasLtMatmulPreference_t preference;
    int n = 0;
    bool ok;

    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS)
        return 0;
    ok = prefer(preference, sums) &&
         cublasLtMatmulAlgoGetHeuristic(cuda->lt, p->desc, p->a, p->b, p->d,
                                        p->d, preference, most, suggested_out,
                                        &n) == CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulPreferenceDestroy(preference);
    return ok ? n : 0;
}

bool vp_product_same(const struct vp_product *a, const struct vp_product *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->a_t == b->a_t &&
           a->b_t == b->b_t && a->type == b->type &&
           a->type_out == b->type_out && a->bias == b->bias &&
           a->gelu == b->gelu && a->add == b->add;
}

cublasStatus_t vp_cuda_run_plan(struct vp_cuda *cuda,
                                const struct vp_cuda_plan *plan,
                                const cublasLtMatmulAlgo_t *algo,
                                const struct vp_operands *operands,
                                void *workspace, cudaStream_t stream)
{
    float one = 1.0f, beta = plan->key.add ? 1.0f : 0.0f;

    if (plan->key.bias && !set(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                               &operands->bias, sizeof(operands->bias)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (plan->key.gelu &&
        !set(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
             &operands->z, sizeof(operands->z)))
        return CUBLAS_STATUS_INVALID_VALUE;
    return cublasLtMatmul(cuda->lt, plan->desc, &one, operands->a, plan->a,
                          operands->b, plan->b, &beta, operands->d, plan->d,
                          operands->d, plan->d, algo, workspace,
                          VP_CUDA_WORKSPACE, stream);
}
