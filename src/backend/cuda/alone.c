/* How fast a product could be: the fastest of all that cuBLASLt suggests, any
 * order of sums included, each run alone on operands that are not in the cache.
 * Products without a pause take a GPU to its power limit, and it slows down; in
 * a training step other kernels lie between them. So they come in bursts.
 * For benchmarks: training takes what search.c finds. */
#include "backend/cuda/kernels.h"
#include "backend/cuda/profile.h"
#include "backend/cuda/search.h"

#include <stdlib.h>
#include <time.h>

enum {
    MAX_SUGGESTIONS = 64,
    MAX_COPIES = 16,
    BURST = 6,  /* runs in a row */
    BURSTS = 8, /* of the fastest */
    PAUSE_NS = 4000000,
};
/* Four times the cache of an H200: operands have left it when it is their turn
 * again. */
static const size_t cold_bytes = (size_t)200 << 20;

struct rig {
    struct vp_cuda *cuda;
    const struct vp_cuda_plan *plan;
    void *cupti;
    struct vp_operands operands[MAX_COPIES];
    int n_copies;
    int turn;
    void *workspace;
    cublasLtMatmulHeuristicResult_t suggested[MAX_SUGGESTIONS];
    int n_suggested;
};

static size_t matrix_bytes(int64_t rows, int64_t cols, enum vp_dtype dtype)
{
    return (size_t)(rows * cols * vp_dtype_bytes(dtype));
}

static int n_copies_of(const struct vp_product *p)
{
    size_t n_bytes = matrix_bytes(p->m, p->k, p->type) +
                     matrix_bytes(p->k, p->n, p->type) +
                     matrix_bytes(p->m, p->n, p->type_out);
    size_t n = cold_bytes / n_bytes + 2;

    return n < MAX_COPIES ? (int)n : MAX_COPIES;
}

static void *make(int64_t rows, int64_t cols, enum vp_dtype dtype)
{
    void *out = NULL;

    if (cudaMalloc(&out, matrix_bytes(rows, cols, dtype)) != cudaSuccess)
        return NULL;
    vp_cuda_fill_noise(out, rows * cols, dtype, cudaStreamPerThread);
    return out;
}

static bool set_up(struct rig *rig)
{
    const struct vp_product *p = &rig->plan->key;

    rig->n_copies = n_copies_of(p);
    for (int i = 0; i < rig->n_copies; i++) {
        struct vp_operands *x = &rig->operands[i];

        x->a = make(p->m, p->k, p->type);
        x->b = make(p->k, p->n, p->type);
        x->d = make(p->m, p->n, p->type_out);
        x->z = p->gelu ? make(p->m, p->n, p->type_out) : NULL;
        x->bias = x->a;
        if (!x->a || !x->b || !x->d || (p->gelu && !x->z))
            return false;
    }
    return cudaMalloc(&rig->workspace, VP_CUDA_WORKSPACE) == cudaSuccess;
}

static void tear_down(struct rig *rig)
{
    for (int i = 0; i < rig->n_copies; i++) {
        cudaFree((void *)rig->operands[i].a);
        cudaFree((void *)rig->operands[i].b);
        cudaFree(rig->operands[i].d);
        cudaFree(rig->operands[i].z);
    }
    cudaFree(rig->workspace);
}

static bool run_once(struct rig *rig, int suggestion)
{
    return vp_cuda_run_plan(
               rig->cuda, rig->plan, &rig->suggested[suggestion].algo,
               &rig->operands[rig->turn++ % rig->n_copies], rig->workspace,
               cudaStreamPerThread) == CUBLAS_STATUS_SUCCESS;
}

/* Runs of a suggestion under its label, after one to warm up. */
static void run_burst(struct rig *rig, int suggestion)
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };

    if (!run_once(rig, suggestion))
        return;
    vp_cuda_kernels_push((uint32_t)suggestion + 1);
    for (int i = 0; i < BURST; i++)
        run_once(rig, suggestion);
    vp_cuda_kernels_pop();
    cudaStreamSynchronize(cudaStreamPerThread);
    nanosleep(&pause, NULL);
}

/* Seconds per run, by suggestion; 0: it does not run. */
static enum vp_status time_runs(struct rig *rig, int first, int n, int n_bursts,
                                double *seconds_out, struct vp_err *err)
{
    struct vp_cuda_span *spans = NULL;
    size_t n_spans = 0;
    enum vp_status st;

    VP_TRY(vp_cuda_kernels_begin(rig->cupti, true, err));
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < n_bursts; k++)
            run_burst(rig, i);
    st = vp_cuda_kernels_end(&spans, &n_spans, err);
    for (int i = first; i < first + n; i++)
        seconds_out[i] = 0.0;
    for (size_t i = 0; i < n_spans; i++)
        if (spans[i].label > 0)
            seconds_out[spans[i].label - 1] += (double)(spans[i].end_ns -
                                                        spans[i].start_ns) *
                                               1e-9 / (n_bursts * BURST);
    free(spans);
    return st;
}

/* The time of the fastest: chosen first, then measured once more, so that it
 * is not the luckiest of many. */
static enum vp_status measure(struct rig *rig, double *seconds_out,
                              struct vp_err *err)
{
    double seconds[MAX_SUGGESTIONS] = { 0 };
    int best = 0;

    rig->n_suggested = vp_cuda_suggest(rig->cuda, rig->plan,
                                       CUBLASLT_REDUCTION_SCHEME_MASK,
                                       MAX_SUGGESTIONS, rig->suggested);
    if (rig->n_suggested == 0 || !set_up(rig))
        return vp_err_set(err, VP_ERR_NOMEM,
                          "GPU %d: no memory to measure a product alone",
                          rig->cuda->device);
    VP_TRY(time_runs(rig, 0, rig->n_suggested, 1, seconds, err));
    for (int i = 1; i < rig->n_suggested; i++)
        if (seconds[i] > 0.0 &&
            (seconds[best] <= 0.0 || seconds[i] < seconds[best]))
            best = i;
    VP_TRY(time_runs(rig, best, 1, BURSTS, seconds, err));
    *seconds_out = seconds[best];
    return VP_OK;
}

VP_EXPORT enum vp_status vp_cuda_profile_alone(struct vp_backend *backend,
                                               void *cupti,
                                               struct vp_profile *profile,
                                               struct vp_err *err);

/* Sets `alone` in the rows of products. */
enum vp_status vp_cuda_profile_alone(struct vp_backend *backend, void *cupti,
                                     struct vp_profile *profile,
                                     struct vp_err *err)
{
    cudaSetDevice(backend->cuda.device);
    for (struct vp_cuda_plan *p = backend->cuda.plans; p; p = p->next) {
        struct vp_profile_row *row = vp_cuda_profile_find(profile, &p->key);
        struct rig rig = { .cuda = &backend->cuda, .plan = p, .cupti = cupti };
        double seconds = 0.0;
        enum vp_status st;

        if (!row)
            continue;
        st = measure(&rig, &seconds, err);
        tear_down(&rig);
        VP_TRY(st);
        row->alone = seconds * row->count;
    }
    return VP_OK;
}
