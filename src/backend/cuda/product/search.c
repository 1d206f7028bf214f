/* Which algorithm for a product: cuBLASLt's first suggestion, unless another
 * one that gives the same bits is clearly faster. So what is found depends on
 * timing, but no result does: a search that ends otherwise changes nothing but
 * the time. Found once per process and shape, for all ranks. */
#include "backend/cuda/product/search.h"

#include "backend/cuda/product/gelu_grad.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { ROUNDS = 3, REPEATS = 4, FINAL_ROUNDS = 16 };
/* A product alone on a cool GPU says little about small differences: in a step
 * the GPU is at its power limit, and operands come from memory. */
static const float clearly = 1.05f;
static const float never = 1e30f; /* milliseconds */
/* Below this, launching takes longer than what could be won. */
static const double worth_flops = 1e9;

struct found {
    struct found *next;
    struct vp_product product;
    int device;
    bool tf32;
    cublasLtMatmulAlgo_t algo;
};

static struct found *all_found;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Memory and events of a search. */
struct rig {
    struct vp_cuda *cuda;
    const struct vp_cuda_plan *plan;
    void *a, *b, *first, *other, *z, *workspace;
    int *flag;
    size_t n_bytes; /* of a result */
    cudaStream_t stream;
    cudaEvent_t begin, end;
};

static bool reserve(void **out, size_t n_bytes)
{
    if (cudaMalloc(out, n_bytes) == cudaSuccess)
        return true;
    cudaGetLastError(); /* forgives: there is no search then */
    *out = NULL;
    return false;
}

static bool set_up(struct rig *rig)
{
    const struct vp_product *p = &rig->plan->key;
    size_t a = vp_matrix_bytes(p->m, p->k, p->type);
    size_t b = vp_matrix_bytes(p->k, p->n, p->type);

    rig->n_bytes = vp_matrix_bytes(p->m, p->n, p->type_out);
    if (!reserve(&rig->a, a) || !reserve(&rig->b, b) ||
        !reserve(&rig->first, rig->n_bytes) ||
        !reserve(&rig->other, rig->n_bytes) ||
        (p->gelu && !reserve(&rig->z, rig->n_bytes)) ||
        !reserve(&rig->workspace, VP_CUDA_WORKSPACE) ||
        !reserve((void **)&rig->flag, sizeof(int)) ||
        cudaStreamCreateWithFlags(&rig->stream, cudaStreamNonBlocking) !=
            cudaSuccess ||
        cudaEventCreate(&rig->begin) != cudaSuccess ||
        cudaEventCreate(&rig->end) != cudaSuccess)
        return false;
    vp_cuda_fill_noise(rig->a, p->m * p->k, p->type, rig->stream);
    vp_cuda_fill_noise(rig->b, p->k * p->n, p->type, rig->stream);
    return true;
}

static void tear_down(struct rig *rig)
{
    if (rig->begin)
        cudaEventDestroy(rig->begin);
    if (rig->end)
        cudaEventDestroy(rig->end);
    if (rig->stream)
        cudaStreamDestroy(rig->stream);
    cudaFree(rig->a);
    cudaFree(rig->b);
    cudaFree(rig->first);
    cudaFree(rig->other);
    cudaFree(rig->z);
    cudaFree(rig->workspace);
    cudaFree(rig->flag);
}

static bool run(struct rig *rig, const cublasLtMatmulAlgo_t *algo, void *d)
{
    return vp_cuda_run_plan(
               rig->cuda, rig->plan, algo,
               &(struct vp_operands){ rig->a, rig->b, d, rig->a, rig->z },
               rig->workspace, rig->stream) == CUBLAS_STATUS_SUCCESS;
}

/* The result on top of zeros. */
static bool compute(struct rig *rig, const cublasLtMatmulAlgo_t *algo, void *d)
{
    return cudaMemsetAsync(d, 0, rig->n_bytes, rig->stream) == cudaSuccess &&
           run(rig, algo, d);
}

/* What is in `other`. */
static bool has_bits_of_first(struct rig *rig)
{
    int flag = 1;

    if (cudaMemsetAsync(rig->flag, 0, sizeof(int), rig->stream) != cudaSuccess)
        return false;
    vp_cuda_find_difference(rig->first, rig->other, (int64_t)rig->n_bytes / 2,
                            rig->flag, rig->stream);
    return cudaMemcpyAsync(&flag, rig->flag, sizeof(flag),
                           cudaMemcpyDeviceToHost,
                           rig->stream) == cudaSuccess &&
           cudaStreamSynchronize(rig->stream) == cudaSuccess && flag == 0;
}

static bool same_bits(struct rig *rig, const cublasLtMatmulAlgo_t *algo)
{
    return compute(rig, algo, rig->other) && has_bits_of_first(rig);
}

/* Milliseconds of REPEATS runs. */
static float time_runs(struct rig *rig, const cublasLtMatmulAlgo_t *algo)
{
    float ms = never;

    cudaEventRecord(rig->begin, rig->stream);
    for (int k = 0; k < REPEATS; k++)
        if (!run(rig, algo, rig->other))
            return never;
    cudaEventRecord(rig->end, rig->stream);
    if (cudaEventSynchronize(rig->end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, rig->begin, rig->end) != cudaSuccess)
        return never;
    return ms;
}

static float least_of_rounds(struct rig *rig, const cublasLtMatmulAlgo_t *algo)
{
    float least = never;

    for (int i = 0; i < ROUNDS; i++)
        least = fminf(least, time_runs(rig, algo));
    return least;
}

static int index_of_least(const float *ms, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++)
        if (ms[i] < ms[best])
            best = i;
    return best;
}

/* The first and all that were faster take turns: their clock is that of a GPU
 * at work. */
static int run_final(struct rig *rig,
                     const cublasLtMatmulHeuristicResult_t *suggested,
                     const float *ms, int n)
{
    float sum[VP_CUDA_SUGGESTIONS] = { 0.0f };
    int best;

    for (int round = 0; round < FINAL_ROUNDS; round++)
        for (int i = 0; i < n; i++)
            sum[i] += ms[i] <= ms[0] ? time_runs(rig, &suggested[i].algo)
                                     : never;
    best = index_of_least(sum, n);
    return clearly * sum[best] < sum[0] ? best : 0;
}

static int search(struct rig *rig,
                  const cublasLtMatmulHeuristicResult_t *suggested, int n)
{
    float ms[VP_CUDA_SUGGESTIONS];

    VP_BUG_ON(n < 1 || n > VP_CUDA_SUGGESTIONS);
    if (!set_up(rig) || !compute(rig, &suggested[0].algo, rig->first))
        return 0;
    for (int i = 0; i < n; i++)
        ms[i] = i == 0 || same_bits(rig, &suggested[i].algo)
                    ? least_of_rounds(rig, &suggested[i].algo)
                    : never;
    return run_final(rig, suggested, ms, n);
}

static double flops_of(const struct vp_product *p)
{
    return 2.0 * (double)p->m * (double)p->n * (double)p->k;
}

static struct found *find(const struct vp_cuda *cuda,
                          const struct vp_product *product)
{
    for (struct found *f = all_found; f; f = f->next)
        if (f->device == cuda->device && f->tf32 == cuda->tf32 &&
            vp_product_same(&f->product, product))
            return f;
    return NULL;
}

cublasLtMatmulAlgo_t vp_cuda_search(
    struct vp_cuda *cuda, const struct vp_cuda_plan *plan,
    const cublasLtMatmulHeuristicResult_t *suggested, int n)
{
    struct rig rig = { .cuda = cuda, .plan = plan };
    cublasLtMatmulAlgo_t algo = suggested[0].algo;
    struct found *found;

    if (n == 1 || flops_of(&plan->key) < worth_flops)
        return algo;
    pthread_mutex_lock(&lock);
    found = find(cuda, &plan->key);
    if (found) {
        algo = found->algo;
    } else {
        algo = suggested[search(&rig, suggested, n)].algo;
        tear_down(&rig);
        found = malloc(sizeof(*found));
        if (found) {
            *found = (struct found){ all_found, plan->key, cuda->device,
                                     cuda->tf32, algo };
            all_found = found;
        }
    }
    pthread_mutex_unlock(&lock);
    return algo;
}

/* Of a z this large, whatever the type, the slope is 1: dz is the product. */
enum { LARGE_BYTE = 0x4C };

static bool same_as_gelu_grad(struct rig *rig)
{
    const struct vp_product *p = &rig->plan->key;
    void *z = NULL, *recomputed = NULL, *parts = NULL;
    bool same = false;

    if (set_up(rig) && compute(rig, &rig->plan->algo, rig->first) &&
        reserve(&z, rig->n_bytes) && reserve(&recomputed, rig->n_bytes) &&
        reserve(&parts, vp_cuda_column_scratch(p->n, p->m, VP_ACT_GELU_ERF)) &&
        cudaMemsetAsync(z, LARGE_BYTE, rig->n_bytes, rig->stream) ==
            cudaSuccess) {
        vp_gelu_grad_run(&(struct vp_gelu_grad){ p->n, p->m, p->k, p->type,
                                                 rig->b, rig->a, z, rig->other,
                                                 recomputed, parts },
                         rig->stream);
        same = has_bits_of_first(rig);
    }
    cudaFree(z);
    cudaFree(recomputed);
    cudaFree(parts);
    return same;
}

bool vp_cuda_search_gelu_grad(struct vp_cuda *cuda,
                              const struct vp_cuda_plan *plan)
{
    struct rig rig = { .cuda = cuda, .plan = plan };
    bool same = same_as_gelu_grad(&rig);

    tear_down(&rig);
    return same;
}
