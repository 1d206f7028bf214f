/* Matrix products: makes a plan when a product is first used, and runs it. */
#include "backend/cuda/product/product.h"

#include "backend/cuda/product/search.h"
#include "backend/cuda/profile/profile.h"

#include <stdlib.h>

/* ---- Plans -------------------------------------------------------------- */

void vp_cuda_plans_free(struct vp_cuda *cuda)
{
    while (cuda->plans) {
        struct vp_cuda_plan *next = cuda->plans->next;

        vp_cuda_plan_free(cuda->plans);
        cuda->plans = next;
    }
}

static bool choose(struct vp_cuda *cuda, struct vp_cuda_plan *p)
{
    cublasLtMatmulHeuristicResult_t suggested[VP_CUDA_SUGGESTIONS];
    /* Partial sums are added by a separate kernel, in a fixed order. */
    int n = vp_cuda_suggest(cuda, p, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                            VP_CUDA_SUGGESTIONS, suggested);

    if (n > 0)
        p->algo = vp_cuda_search(cuda, p, suggested, n);
    return n > 0;
}

static struct vp_cuda_plan *find_plan(struct vp_cuda *cuda,
                                      const struct vp_product *key)
{
    struct vp_cuda_plan *p;

    for (p = cuda->plans; p; p = p->next)
        if (vp_product_same(&p->key, key))
            return p;
    p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->key = *key;
    if (!vp_cuda_plan_describe(cuda, p) || !choose(cuda, p)) {
        vp_cuda_plan_free(p);
        return NULL;
    }
    p->next = cuda->plans;
    cuda->plans = p;
    return p;
}

bool vp_cuda_multiplies_as(struct vp_cuda *cuda,
                           const struct vp_gelu_grad *grad)
{
    const struct vp_product key = { .m = grad->cols,
                                    .n = grad->rows,
                                    .k = grad->depth,
                                    .type = grad->dtype,
                                    .type_out = grad->dtype };
    struct vp_cuda_plan *p;

    if (!vp_gelu_grad_takes(grad))
        return false;
    p = find_plan(cuda, &key);
    if (p && p->gelu_grad == VP_NOT_TRIED)
        p->gelu_grad = vp_cuda_search_gelu_grad(cuda, p) ? VP_SAME_BITS
                                                         : VP_OTHER_BITS;
    return p && p->gelu_grad == VP_SAME_BITS;
}

/* ---- Products ----------------------------------------------------------- */

enum vp_status vp_cuda_multiply(struct vp_cuda *cuda,
                                const struct vp_product *product,
                                const struct vp_operands *operands,
                                void *workspace, cudaStream_t stream)
{
    struct vp_cuda_plan *p = find_plan(cuda, product);
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    int label = vp_cuda_profile_push(cuda->profile);

    if (p)
        status = vp_cuda_run_plan(cuda, p, &p->algo, operands, workspace,
                                  stream);
    vp_cuda_profile_pop_product(cuda->profile, label, product);
    if (status == CUBLAS_STATUS_SUCCESS)
        return VP_OK;
    return vp_err_set(&cuda->err, VP_ERR_UNSUPPORTED,
                      "GPU %d: product of %lld x %lld x %lld: %s", cuda->device,
                      (long long)product->m, (long long)product->n,
                      (long long)product->k, cublasLtGetStatusString(status));
}
