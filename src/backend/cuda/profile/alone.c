/* Measures how fast a product could be: the fastest of all algorithms that
 * cuBLASLt suggests, whatever their order of sums, each run alone on operands
 * that are not in the cache. For benchmarks only: training uses the algorithm
 * that product/search.c chooses.
 *
 * Products without a pause take a GPU to its power limit, where it slows down;
 * in a training step other kernels run between them. They are therefore run in
 * short bursts with pauses, and also for longer without a pause, to show the
 * cost of the power limit. */
#include "backend/cuda/product/search.h"
#include "backend/cuda/profile/kernels.h"
#include "backend/cuda/profile/profile.h"

#include <stdlib.h>
#include <time.h>

enum {
    MAX_SUGGESTIONS = 64,
    MAX_COPIES = 16,
    BURST = 6,  /* runs without a pause */
    BURSTS = 8, /* bursts of the fastest algorithm */
    PAUSE_NS = 4000000,
};
/* Four times the cache of an H200: operands have been evicted when they are
 * used again. */
static const size_t cold_bytes = (size_t)200 << 20;
static const double length = 0.12; /* seconds of a long run without a pause */
/* An algorithm that is slower in bursts than the fastest by more than this
 * factor is not measured in a long run. */
static const double near = 1.1;

/* Memory of one measurement. */
struct rig {
    struct vp_cuda *cuda;
    const struct vp_cuda_plan *plan;
    void *cupti;
    struct vp_operands operands[MAX_COPIES];
    int n_copies;
    int next_copy;
    void *workspace;
    cublasLtMatmulHeuristicResult_t suggested[MAX_SUGGESTIONS];
    int n_suggested;
    /* Seconds per run in bursts; 0: the algorithm does not run. */
    double seconds[MAX_SUGGESTIONS];
};

/* Number of copies of the operands that together exceed the cache. */
static int n_copies_of(const struct vp_product *p)
{
    size_t n_bytes = vp_matrix_bytes(p->m, p->k, p->type) +
                     vp_matrix_bytes(p->k, p->n, p->type) +
                     vp_matrix_bytes(p->m, p->n, p->type_out);
    size_t n = cold_bytes / n_bytes + 2;

    return n < MAX_COPIES ? (int)n : MAX_COPIES;
}

static void *make(int64_t rows, int64_t cols, enum vp_dtype dtype)
{
    void *out = NULL;

    if (cudaMalloc(&out, vp_matrix_bytes(rows, cols, dtype)) != cudaSuccess)
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
               &rig->operands[rig->next_copy++ % rig->n_copies], rig->workspace,
               cudaStreamPerThread) == CUBLAS_STATUS_SUCCESS;
}

/* Runs a suggestion `n` times under its label, and waits. Returns n. */
static int run_labelled(struct rig *rig, int suggestion, int n)
{
    vp_cuda_kernels_push((uint32_t)suggestion + 1);
    for (int i = 0; i < n; i++)
        run_once(rig, suggestion);
    vp_cuda_kernels_pop();
    cudaStreamSynchronize(cudaStreamPerThread);
    return n;
}

static int run_burst(struct rig *rig, int suggestion)
{
    const struct timespec pause = { .tv_nsec = PAUSE_NS };
    int n;

    if (!run_once(rig, suggestion)) /* warm-up */
        return 0;
    n = run_labelled(rig, suggestion, BURST);
    nanosleep(&pause, NULL);
    return n;
}

/* Only the second half is labelled and counted: by then the GPU has slowed
 * down. */
static int run_at_length(struct rig *rig, int suggestion)
{
    int n = 1 + (int)(0.5 * length / rig->seconds[suggestion]);

    for (int i = 0; i < n; i++)
        run_once(rig, suggestion);
    return run_labelled(rig, suggestion, n);
}

typedef int (*run_fn)(struct rig *rig, int suggestion);

/* Seconds per run; 0 if the algorithm does not run. */
static enum vp_status time_runs(struct rig *rig, int suggestion, run_fn run,
                                int n_times, double *seconds_out,
                                struct vp_err *err)
{
    struct vp_cuda_span *spans = NULL;
    size_t n_spans = 0;
    double ns = 0.0;
    int n_runs = 0;
    enum vp_status st;

    VP_TRY(vp_cuda_kernels_begin(rig->cupti, true, err));
    for (int i = 0; i < n_times; i++)
        n_runs += run(rig, suggestion);
    st = vp_cuda_kernels_end(&spans, &n_spans, err);
    for (size_t i = 0; i < n_spans; i++)
        if (spans[i].label > 0)
            ns += (double)(spans[i].end_ns - spans[i].start_ns);
    free(spans);
    *seconds_out = n_runs > 0 ? 1e-9 * ns / n_runs : 0.0;
    return st;
}

static int fastest(const struct rig *rig)
{
    int best = 0;

    for (int i = 1; i < rig->n_suggested; i++)
        if (rig->seconds[i] > 0.0 &&
            (rig->seconds[best] <= 0.0 || rig->seconds[i] < rig->seconds[best]))
            best = i;
    return best;
}

/* Long runs of all algorithms that are fast in bursts. Returns the least time
 * in `seconds_out`. */
static enum vp_status measure_at_length(struct rig *rig, double *seconds_out,
                                        struct vp_err *err)
{
    double limit = near * rig->seconds[fastest(rig)], seconds;

    *seconds_out = 0.0;
    for (int i = 0; i < rig->n_suggested; i++) {
        if (rig->seconds[i] <= 0.0 || rig->seconds[i] > limit)
            continue;
        VP_TRY(time_runs(rig, i, run_at_length, 1, &seconds, err));
        if (*seconds_out <= 0.0 || seconds < *seconds_out)
            *seconds_out = seconds;
    }
    return VP_OK;
}

/* Chooses the fastest algorithm first and then measures it again, because the
 * smallest of many times is too low by chance. */
static enum vp_status measure(struct rig *rig, double *alone_out,
                              double *at_length_out, struct vp_err *err)
{
    rig->n_suggested = vp_cuda_suggest(rig->cuda, rig->plan,
                                       CUBLASLT_REDUCTION_SCHEME_MASK,
                                       MAX_SUGGESTIONS, rig->suggested);
    if (rig->n_suggested == 0 || !set_up(rig))
        return vp_err_set(err, VP_ERR_NOMEM,
                          "GPU %d: cannot measure a product alone: there is no "
                          "algorithm for it or not enough memory",
                          rig->cuda->device);
    for (int i = 0; i < rig->n_suggested; i++)
        VP_TRY(time_runs(rig, i, run_burst, 1, &rig->seconds[i], err));
    VP_TRY(time_runs(rig, fastest(rig), run_burst, BURSTS, alone_out, err));
    return measure_at_length(rig, at_length_out, err);
}

/* Measures all products that the backend has run so far and that have a row in
 * `profile`. Sets `alone` and `at_length` in these rows, in seconds. `cupti`:
 * as in vp_cuda_kernels_begin(). */
VP_EXPORT enum vp_status vp_cuda_profile_alone(struct vp_backend *backend,
                                               void *cupti,
                                               struct vp_profile *profile,
                                               struct vp_err *err);

enum vp_status vp_cuda_profile_alone(struct vp_backend *backend, void *cupti,
                                     struct vp_profile *profile,
                                     struct vp_err *err)
{
    cudaSetDevice(backend->cuda.device);
    for (struct vp_cuda_plan *p = backend->cuda.plans; p; p = p->next) {
        struct vp_profile_row *row = vp_cuda_profile_find(profile, &p->key);
        struct rig rig = { .cuda = &backend->cuda, .plan = p, .cupti = cupti };
        double alone = 0.0, at_length = 0.0;
        enum vp_status st;

        if (!row)
            continue;
        st = measure(&rig, &alone, &at_length, err);
        tear_down(&rig);
        VP_TRY(st);
        row->alone = alone * row->count;
        row->at_length = at_length * row->count;
    }
    return VP_OK;
}
