/* Chooses the algorithm of a product: cuBLASLt's first suggestion, unless
 * another one that gives the same bits is clearly faster.
 *
 * The choice depends on timing, but no result does: a search that ends early,
 * or with another choice in another process, changes only the speed. A choice
 * is made once per process and shape, for all ranks, and stored in a file for
 * later processes. These use it if the algorithm is still suggested and still
 * gives the same bits. */
#include "backend/cuda/product/search.h"

#include "backend/cuda/product/gelu_grad.h"
#include "backend/tuned.h"
#include "base/clock.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 3,
    REPEATS = 4, /* runs per timing of a short product */
    FINAL_ROUNDS = 16,
    /* Time limits of the two parts of a search, which then uses the best
     * algorithm found so far. */
    FIRST_MS = 120,
    FINAL_MS = 100,
};
/* Milliseconds of one run, above which it is timed singly. */
static const float long_run = 0.5f;
/* Factor by which another algorithm must be faster. Timing a product alone on a
 * cool GPU is inexact: in a training step the GPU is at its power limit, and
 * operands come from memory. */
static const float clearly = 1.05f;
static const float never = 1e30f; /* milliseconds */
/* For smaller products, a launch takes longer than the time that could be
 * saved. */
static const double worth_flops = 1e9;

/* A choice made in this process. */
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
    size_t n_bytes; /* size of a result */
    int repeats;
    cudaStream_t stream;
    cudaEvent_t begin, end;
};

/* Allocates device memory. Returns false if there is not enough, and clears the
 * error: the search is skipped then. */
static bool reserve(void **out, size_t n_bytes)
{
    if (cudaMalloc(out, n_bytes) == cudaSuccess)
        return true;
    cudaGetLastError();
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
    *rig = (struct rig){ .cuda = rig->cuda, .plan = rig->plan };
}

static bool run(struct rig *rig, const cublasLtMatmulAlgo_t *algo, void *d)
{
    return vp_cuda_run_plan(
               rig->cuda, rig->plan, algo,
               &(struct vp_operands){ rig->a, rig->b, d, rig->a, rig->z },
               rig->workspace, rig->stream) == CUBLAS_STATUS_SUCCESS;
}

/* Computes a result over zeros, for products that add to d. */
static bool compute(struct rig *rig, const cublasLtMatmulAlgo_t *algo, void *d)
{
    return cudaMemsetAsync(d, 0, rig->n_bytes, rig->stream) == cudaSuccess &&
           run(rig, algo, d);
}

/* True if `other` has the same bits as `first`. */
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

/* Milliseconds of rig->repeats runs; `never` if they fail. */
static float time_runs(struct rig *rig, const cublasLtMatmulAlgo_t *algo)
{
    float ms = never;

    cudaEventRecord(rig->begin, rig->stream);
    for (int k = 0; k < rig->repeats; k++)
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

static bool is_over(int64_t begin_ns, int64_t ms)
{
    return vp_clock_ns() - begin_ns > ms * 1000000;
}

/* The first suggestion and all that were faster take turns, so that all are
 * timed at the clock rate of a busy GPU. Returns the index of the choice. */
static int run_final(struct rig *rig,
                     const cublasLtMatmulHeuristicResult_t *suggested,
                     const float *ms, int n)
{
    float sum[VP_CUDA_SUGGESTIONS] = { 0.0f };
    int64_t begin = vp_clock_ns();
    int best;

    for (int round = 0; round < FINAL_ROUNDS && !is_over(begin, FINAL_MS);
         round++)
        for (int i = 0; i < n; i++)
            sum[i] += ms[i] <= ms[0] ? time_runs(rig, &suggested[i].algo)
                                     : never;
    best = index_of_least(sum, n);
    return clearly * sum[best] < sum[0] ? best : 0;
}

/* Returns the index of the chosen suggestion; 0 if there is no memory to
 * search. */
static int search(struct rig *rig,
                  const cublasLtMatmulHeuristicResult_t *suggested, int n)
{
    float ms[VP_CUDA_SUGGESTIONS];
    int64_t begin = vp_clock_ns();

    VP_BUG_ON(n < 1 || n > VP_CUDA_SUGGESTIONS);
    if (!set_up(rig) || !compute(rig, &suggested[0].algo, rig->first))
        return 0;
    rig->repeats = 1;
    if (least_of_rounds(rig, &suggested[0].algo) < long_run)
        rig->repeats = REPEATS;
    for (int i = 0; i < n; i++)
        ms[i] = i == 0 || (!is_over(begin, FIRST_MS) &&
                           same_bits(rig, &suggested[i].algo))
                    ? least_of_rounds(rig, &suggested[i].algo)
                    : never;
    return run_final(rig, suggested, ms, n);
}

/* ---- Between processes -------------------------------------------------- */

enum { KEY_BYTES = 320, VALUE_BYTES = 2 * sizeof(cublasLtMatmulAlgo_t) + 1 };

/* Prints everything that the choice depends on. Returns false if it cannot be
 * found out. */
static bool print_key(const struct rig *rig, char key[KEY_BYTES])
{
    const struct vp_product *p = &rig->plan->key;
    struct cudaDeviceProp properties;
    int driver = 0, n;

    if (cudaGetDeviceProperties(&properties, rig->cuda->device) !=
            cudaSuccess ||
        cudaDriverGetVersion(&driver) != cudaSuccess)
        return false;
    n = snprintf(key, KEY_BYTES,
                 "%.60s, driver %d, cublasLt %zu, %lld x %lld x %lld, "
                 "transposed %d %d, types %d %d, bias %d, gelu %d, add %d, "
                 "tf32 %d",
                 properties.name, driver, cublasLtGetVersion(), (long long)p->m,
                 (long long)p->n, (long long)p->k, p->a_t, p->b_t, (int)p->type,
                 (int)p->type_out, p->bias, p->gelu, p->add, rig->cuda->tf32);
    return n > 0 && n < KEY_BYTES;
}

static void print_value(const cublasLtMatmulAlgo_t *algo,
                        char value[VALUE_BYTES])
{
    const unsigned char *bytes = (const unsigned char *)algo;

    for (size_t i = 0; i < sizeof(*algo); i++)
        snprintf(value + 2 * i, 3, "%02x", bytes[i]);
}

/* Returns the index of the suggestion that an earlier process chose, or -1 if
 * there is none that can still be used. */
static int recall(struct rig *rig, const char *path, const char *key,
                  const cublasLtMatmulHeuristicResult_t *suggested, int n)
{
    char kept[VALUE_BYTES], value[VALUE_BYTES];

    if (!vp_tuned_find(path, key, kept, sizeof(kept)))
        return -1;
    for (int i = 0; i < n; i++) {
        print_value(&suggested[i].algo, value);
        if (strcmp(kept, value) != 0)
            continue;
        return i == 0 || (set_up(rig) &&
                          compute(rig, &suggested[0].algo, rig->first) &&
                          same_bits(rig, &suggested[i].algo))
                   ? i
                   : -1;
    }
    return -1;
}

static int search_or_recall(struct rig *rig,
                            const cublasLtMatmulHeuristicResult_t *suggested,
                            int n)
{
    char path[PATH_MAX], key[KEY_BYTES], value[VALUE_BYTES];
    bool kept = vp_tuned_path("products", path, sizeof(path)) &&
                print_key(rig, key);
    int best = kept ? recall(rig, path, key, suggested, n) : -1;

    if (best >= 0)
        return best;
    tear_down(rig);
    best = search(rig, suggested, n);
    print_value(&suggested[best].algo, value);
    if (kept)
        vp_tuned_add(path, key, value);
    return best;
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
        algo = suggested[search_or_recall(&rig, suggested, n)].algo;
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

/* Byte from which z is made: whatever the type, z is so large that the slope of
 * GELU is 1 and dz is the product itself. */
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
