/* Products of floats: cut into tiles, which oneDNN computes. Forwards BF16
 * products to gemm_bf16.c. */
#include "backend/cpu/gemm.h"

#include "backend/cpu/fast.h"
#include "backend/cpu/gemm_bf16.h"
#include "backend/cpu/sgemm.h"

#include <omp.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Tiles were chosen on oneDNN 2.6 by measuring training shapes (rows 320 to
 * 2048, widths 768 to 30528): a 512 x 384 tile keeps 93 % or more of the speed
 * of the uncut product in most of them. oneDNN packs both operands anew for
 * each tile, and packing b costs more where it is transposed, so lower tiles
 * lose there first (256 x 384: 86 to 95 %). Its kernels work in blocks of 8
 * rows and 48 columns. */
enum {
    TILE_M = 512,
    TILE_N = 384,
    BLOCK_M = 8,
    BLOCK_N = 48,
    LEAST_M = 64,
    LEAST_N = 96,
};

/* A tile with fewer multiply-adds is not cut: its halves would take less than
 * 20 microseconds, and starting and joining the threads would show. */
#define LEAST_WORK 4e6

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the size of equal parts of `n`: at most `most`, rounded up to whole
 * blocks. */
static int64_t equal_parts(int64_t n, int64_t most, int64_t block)
{
    int64_t part = divide_up(n, divide_up(n, most));

    return divide_up(part, block) * block;
}

struct vp_gemm_cut vp_gemm_cut(const struct vp_gemm *gemm)
{
    /* The number of tiles to aim for, if there is enough work. */
    int64_t want = gemm->b.transposed ? 8 : 16;
    int64_t tile_m = at_most(TILE_M, gemm->m);
    int64_t tile_n = at_most(TILE_N, gemm->n);
    struct vp_gemm_cut cut;

    while (divide_up(gemm->m, tile_m) * divide_up(gemm->n, tile_n) < want &&
           (double)tile_m * (double)tile_n * (double)gemm->k >= LEAST_WORK) {
        if (tile_m >= tile_n && tile_m >= 2 * LEAST_M)
            tile_m = divide_up(tile_m, 2);
        else if (tile_n >= 2 * LEAST_N)
            tile_n = divide_up(tile_n, 2);
        else if (tile_m >= 2 * LEAST_M)
            tile_m = divide_up(tile_m, 2);
        else
            break;
    }
    cut.tile_m = equal_parts(gemm->m, tile_m, BLOCK_M);
    cut.tile_n = equal_parts(gemm->n, tile_n, BLOCK_N);
    cut.rows = divide_up(gemm->m, cut.tile_m);
    cut.cols = divide_up(gemm->n, cut.tile_n);
    return cut;
}

size_t vp_cpu_gemm_here_scratch(enum vp_dtype dtype, int64_t m, int64_t n,
                                int64_t k)
{
    return dtype == VP_DTYPE_BF16 ? vp_cpu_gemm_bf16_here_scratch(m, n, k) : 0;
}

void vp_cpu_gemm_here(const struct vp_gemm *gemm)
{
    if (gemm->dtype == VP_DTYPE_BF16)
        vp_cpu_gemm_bf16_here(gemm);
    else
        vp_cpu_sgemm(gemm, 0, gemm->m, 0, gemm->n);
}

struct job {
    struct vp_pool *pool;
    const struct vp_gemm *gemm;
    struct vp_gemm_cut cut;
};

/* Neighbouring tasks share columns, so threads that run side by side read the
 * same part of b (the weights) from the shared cache. */
static void run_tile(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    const struct vp_gemm *gemm = job->gemm;
    int64_t row = task % job->cut.rows * job->cut.tile_m;
    int64_t col = task / job->cut.rows * job->cut.tile_n;
    int64_t rows = at_most(job->cut.tile_m, gemm->m - row);
    int64_t cols = at_most(job->cut.tile_n, gemm->n - col);

    vp_pool_note(job->pool, thread, VP_CPU_PRODUCTS);
    vp_cpu_sgemm(gemm, row, rows, col, cols);
    vp_pool_note(job->pool, thread, VP_CPU_ELEMENTWISE);
    if (gemm->finish)
        gemm->finish(gemm->ctx, row, rows, col, cols,
                     gemm->c + row * gemm->ldc + col, gemm->ldc);
}

size_t vp_cpu_gemm_scratch(const struct vp_gemm *gemm, int n_threads)
{
    return gemm->dtype == VP_DTYPE_BF16
               ? vp_cpu_gemm_bf16_scratch(gemm, n_threads)
               : 0;
}

void vp_cpu_gemm(struct vp_pool *pool, const struct vp_gemm *gemm)
{
    struct job job = { .pool = pool, .gemm = gemm };

    if (gemm->m == 0 || gemm->n == 0)
        return;
    if (gemm->dtype == VP_DTYPE_BF16) {
        vp_cpu_gemm_bf16(pool, gemm);
        return;
    }
    job.cut = vp_gemm_cut(gemm);
    vp_pool_run(pool, (int)(job.cut.rows * job.cut.cols), run_tile, &job);
}

void vp_cpu_thread_setup(int thread)
{
    (void)thread;
    omp_set_num_threads(1);
#if defined(__x86_64__)
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _mm_setcsr(_mm_getcsr() | 0x0040); /* DAZ: denormal operands are zero */
#endif
}
