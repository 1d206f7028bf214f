/* Products of BF16: packing, tiles and threads around the kernels of
 * gemm_bf16.h. On a processor without BF16 instructions, operands are widened
 * to floats instead. */
#include "backend/cpu/gemm_bf16.h"

#include "backend/cpu/fast.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/sgemm.h"
#include "base/memory.h"
#include "graph/program.h"

#include <string.h>

enum {
    TILE = 256,   /* most rows and columns of a tile: c and the strips of a that
                     it reads fit in a level-2 cache */
    LEAST = 64,   /* fewest, if a product is cut further for more threads */
    WANT = 32,    /* number of tiles to aim for, if there is enough work */
    WIDE_K = 512, /* values of k that are widened to floats at a time */
    PACK_ELEMENTS = 65536, /* elements that a packing task handles */
    LEAST_STRIPS = 2,      /* fewest per packing task: neighbouring strips share
                              pairs of cache lines */
    STREAMED = 1 << 20,    /* elements of a c that is written past the caches */
};

/* A tile with fewer multiply-adds is not cut: see gemm.c. */
#define LEAST_WORK 16e6
/* Limit of the packed part of b: the output layer of a vocabulary is larger. */
#define PACKED_BYTES (16 << 20)

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t to)
{
    return divide_up(a, to) * to;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns NULL if BF16 must be widened to floats. */
static const struct vp_gemm_bf16_kernels *kernels_of(void)
{
#if defined(__x86_64__)
    switch (vp_cpu_isa()) {
    case VP_ISA_AMX_BF16:
        return &vp_gemm_amx_bf16;
    case VP_ISA_AVX512_BF16:
        return &vp_gemm_avx512_bf16;
    default:
        break;
    }
#endif
    return NULL;
}

struct vp_gemm_cut vp_gemm_bf16_cut(const struct vp_gemm *gemm)
{
    int64_t tile_m = at_most(TILE, round_up(gemm->m, VP_STRIP));
    int64_t tile_n = at_most(TILE, round_up(gemm->n, VP_STRIP));
    struct vp_gemm_cut cut;

    while (divide_up(gemm->m, tile_m) * divide_up(gemm->n, tile_n) < WANT &&
           (double)tile_m * (double)tile_n * (double)gemm->k >= LEAST_WORK) {
        int64_t *larger = tile_m >= tile_n ? &tile_m : &tile_n;

        if (*larger < 2 * LEAST)
            break;
        *larger = round_up(*larger / 2, VP_STRIP);
    }
    cut.rows = divide_up(gemm->m, tile_m);
    cut.cols = divide_up(gemm->n, tile_n);
    cut.tile_m = round_up(divide_up(gemm->m, cut.rows), VP_STRIP);
    cut.tile_n = round_up(divide_up(gemm->n, cut.cols), VP_STRIP);
    cut.rows = divide_up(gemm->m, cut.tile_m);
    cut.cols = divide_up(gemm->n, cut.tile_n);
    return cut;
}

/* ---- Scratch ------------------------------------------------------------ */

/* Elements of a strip. */
static int64_t strip_size(int64_t k)
{
    return round_up(k, 32) * VP_STRIP;
}

static size_t strips_bytes(int64_t n, int64_t k)
{
    return (size_t)(divide_up(n, VP_STRIP) * strip_size(k)) * sizeof(uint16_t);
}

/* Scratch: strips of a, strips of b, then an area for each thread with its tile
 * of c and, without BF16 kernels, its widened operands. Offsets are in
 * bytes. */
struct layout {
    int64_t n_at_once; /* columns of b that are packed at a time */
    size_t b, threads; /* offsets of the strips of b, and of the areas */
    size_t wide_a, wide_b,
        thread_bytes; /* offsets within, and bytes of, a thread's area */
    size_t n_bytes;
};

/* `tile_bytes` are the bytes of c in each thread's area. */
static struct layout layout_of(const struct vp_gemm *gemm,
                               const struct vp_gemm_cut *cut, int n_threads,
                               size_t tile_bytes)
{
    struct layout l = { .n_at_once = gemm->n };
    int64_t k = at_most(gemm->k, WIDE_K);

    l.wide_a = l.wide_b = l.thread_bytes = tile_bytes;
    if (!kernels_of()) {
        l.wide_b = l.wide_a + (size_t)(cut->tile_m * k) * sizeof(float);
        l.thread_bytes = l.wide_b + (size_t)(k * cut->tile_n) * sizeof(float);
    } else {
        int64_t most = PACKED_BYTES / (int64_t)sizeof(uint16_t) /
                       (strip_size(gemm->k) / VP_STRIP) / cut->tile_n;

        l.n_at_once = at_most((most > 1 ? most : 1) * cut->tile_n, gemm->n);
        l.b = strips_bytes(gemm->m, gemm->k);
        l.threads = l.b + strips_bytes(l.n_at_once, gemm->k);
    }
    l.thread_bytes = vp_align_up(l.thread_bytes, VP_TENSOR_ALIGN);
    l.n_bytes = l.threads + (size_t)n_threads * l.thread_bytes;
    return l;
}

static struct layout tiles_layout(const struct vp_gemm *gemm,
                                  const struct vp_gemm_cut *cut, int n_threads)
{
    bool in_place = gemm->c && !kernels_of();
    size_t tile_bytes = (size_t)(cut->tile_m * cut->tile_n) * sizeof(float);

    return layout_of(gemm, cut, n_threads, in_place ? 0 : tile_bytes);
}

size_t vp_cpu_gemm_bf16_scratch(const struct vp_gemm *gemm, int n_threads)
{
    struct vp_gemm_cut cut = vp_gemm_bf16_cut(gemm);

    return tiles_layout(gemm, &cut, n_threads).n_bytes;
}

/* ---- Tiles -------------------------------------------------------------- */

struct job {
    struct vp_pool *pool;
    const struct vp_gemm *gemm;
    const struct vp_gemm_bf16_kernels *kernels;
    struct vp_gemm_cut cut;
    struct layout layout;
    int64_t first_col, n_cols; /* columns of b that are packed now */
    int64_t strips_at_once;    /* strips per packing task */
    struct vp_strips a, b;
};

/* Rows and columns of c. */
struct tile {
    int64_t row, rows, col, cols;
};

/* Returns strips of k elements, cut into equal chunks. */
static struct vp_strips strips_of(const struct job *job, size_t offset,
                                  int64_t n)
{
    int64_t n_blocks = divide_up(job->gemm->k, 32);
    int64_t n_chunks = divide_up(n_blocks, job->kernels->k_blocks);

    return (struct vp_strips){
        .data = (uint16_t *)((char *)job->gemm->scratch + offset),
        .n_strips = divide_up(n, VP_STRIP),
        .n_blocks = n_blocks,
        .chunk = n_chunks > 0 ? divide_up(n_blocks, n_chunks) : 1,
    };
}

/* Both return the strip of a row or a column from block `k` on. */
static const uint16_t *strip_of_a(const struct job *job, int64_t row, int64_t k)
{
    return vp_strip_at(&job->a, row / VP_STRIP, k);
}

static const uint16_t *strip_of_b(const struct job *job, int64_t col, int64_t k)
{
    return vp_strip_at(&job->b, (col - job->first_col) / VP_STRIP, k);
}

/* Packs rows [begin, end) of a; a strip begins at `begin`. */
static void pack_rows(const struct job *job, int64_t begin, int64_t end)
{
    const struct vp_factor *a = &job->gemm->a;

    vp_pack_a(&job->a, begin / VP_STRIP,
              (const uint16_t *)a->data + begin * (a->transposed ? 1 : a->ld),
              a->ld, a->transposed, end - begin, job->gemm->k);
}

/* Packs columns [begin, end) of b; a strip begins at `begin`. */
static void pack_cols(const struct job *job, int64_t begin, int64_t end)
{
    const struct vp_factor *b = &job->gemm->b;

    vp_pack_b(&job->b, (begin - job->first_col) / VP_STRIP,
              (const uint16_t *)b->data + begin * (b->transposed ? b->ld : 1),
              b->ld, b->transposed, end - begin, job->gemm->k);
}

/* Computes a block at the edge of c, of which only `rows` x `cols` are in c, in
 * a whole block on the stack. */
static void edge_block(const struct job *job, float *c, int64_t ldc,
                       int64_t rows, int64_t cols, const uint16_t *a,
                       const uint16_t *b, int64_t n, bool add)
{
    static const struct vp_gemm_ahead none;
    float whole[VP_STRIP * VP_STRIP];

    for (int64_t i = 0; add && i < rows; i++)
        memcpy(whole + i * VP_STRIP, c + i * ldc, (size_t)cols * sizeof(*c));
    job->kernels->block(whole, VP_STRIP, a, b, n, add, &none);
    for (int64_t i = 0; i < rows; i++)
        memcpy(c + i * ldc, whole + i * VP_STRIP, (size_t)cols * sizeof(*c));
}

/* Returns the part of the packed data that the block at row i and column j of a
 * tile prefetches. In the order of the blocks, the strip of b for j is used by
 * a column of blocks, and each strip of a by all columns of a chunk: so a
 * column of blocks prefetches the next strip of b, and a row of blocks its
 * strip of a in the next chunk. `next` is the tile after this one, or NULL. */
static struct vp_gemm_ahead ahead_of(const struct job *job,
                                     const struct tile *tile,
                                     const struct tile *next, int64_t k,
                                     int64_t i, int64_t j)
{
    int64_t n = at_most(job->a.chunk, job->a.n_blocks - k);
    int64_t lines = n * VP_STRIP_BLOCK * (int64_t)sizeof(uint16_t) / 64;
    int64_t a_lines = divide_up(lines, divide_up(tile->cols, VP_STRIP));
    int64_t b_lines = divide_up(lines, divide_up(tile->rows, VP_STRIP));
    const struct tile *then = k + n < job->a.n_blocks ? tile : next;
    int64_t then_k = k + n < job->a.n_blocks ? k + n : 0;
    struct vp_gemm_ahead ahead = { 0 };

    if (then && i < then->rows) {
        ahead.a = (const char *)strip_of_a(job, then->row + i, then_k) +
                  j / VP_STRIP * a_lines * 64;
        ahead.a_lines = a_lines;
    }
    if (j + VP_STRIP < tile->cols)
        ahead.b = (const char *)strip_of_b(job, tile->col + j + VP_STRIP, k);
    else if (then)
        ahead.b = (const char *)strip_of_b(job, then->col, then_k);
    if (ahead.b) {
        ahead.b += i / VP_STRIP * b_lines * 64;
        ahead.b_lines = b_lines;
    }
    return ahead;
}

/* c [tile->rows, tile->cols] = the product of the strips of a tile; c is added
 * if `add`. `room`: c has memory for whole blocks at its edges. `next` is the
 * tile that this thread probably computes next, or NULL. */
static void multiply_strips(const struct job *job, const struct tile *tile,
                            const struct tile *next, float *c, int64_t ldc,
                            bool add, bool room)
{
    job->kernels->begin();
    for (int64_t k = 0; k < job->a.n_blocks; k += job->a.chunk) {
        int64_t n = at_most(job->a.chunk, job->a.n_blocks - k);

        for (int64_t j = 0; j < tile->cols; j += VP_STRIP) {
            const uint16_t *b = strip_of_b(job, tile->col + j, k);

            for (int64_t i = 0; i < tile->rows; i += VP_STRIP) {
                const uint16_t *a = strip_of_a(job, tile->row + i, k);
                int64_t rows = at_most(tile->rows - i, VP_STRIP);
                int64_t cols = at_most(tile->cols - j, VP_STRIP);
                struct vp_gemm_ahead ahead = ahead_of(job, tile, next, k, i, j);
                float *to = c + i * ldc + j;

                if (room || (rows == VP_STRIP && cols == VP_STRIP))
                    job->kernels->block(to, ldc, a, b, n, add || k > 0, &ahead);
                else
                    edge_block(job, to, ldc, rows, cols, a, b, n, add || k > 0);
            }
        }
    }
    job->kernels->end();
}

/* dst [rows, cols] = the factor from element (row, col) on, as floats. */
static void widen(float *dst, const struct vp_factor *f, int64_t row,
                  int64_t rows, int64_t col, int64_t cols)
{
    const uint16_t *src = f->data;

    if (!f->transposed) {
        for (int64_t i = 0; i < rows; i++)
            vp_dtype_expand(VP_DTYPE_BF16, dst + i * cols,
                            src + (row + i) * f->ld + col, cols);
        return;
    }
    for (int64_t j = 0; j < cols; j++) {
        const uint16_t *from = src + (col + j) * f->ld + row;

        for (int64_t i = 0; i < rows; i++)
            vp_dtype_expand(VP_DTYPE_BF16, dst + i * cols + j, from + i, 1);
    }
}

/* Does what multiply_strips() does, by widened operands and oneDNN. `mine` is
 * the area of the thread in scratch. */
static void multiply_wide(const struct job *job, const struct tile *tile,
                          float *c, int64_t ldc, bool add, char *mine)
{
    const struct vp_gemm *gemm = job->gemm;
    float *a = (float *)(mine + job->layout.wide_a);
    float *b = (float *)(mine + job->layout.wide_b);
    struct vp_gemm wide;

    for (int64_t k = 0; k < gemm->k; k += WIDE_K) {
        int64_t n = at_most(WIDE_K, gemm->k - k);

        widen(a, &gemm->a, tile->row, tile->rows, k, n);
        widen(b, &gemm->b, k, n, tile->col, tile->cols);
        wide = (struct vp_gemm){ .k = n,
                                 .a = { a, n, false },
                                 .b = { b, tile->cols, false },
                                 .alpha = 1.0f,
                                 .beta = add || k > 0 ? 1.0f : 0.0f,
                                 .c = c,
                                 .ldc = ldc };
        vp_cpu_sgemm(&wide, 0, tile->rows, 0, tile->cols);
    }
}

static void copy_rows(float *dst, int64_t dst_ld, const float *src,
                      int64_t src_ld, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(dst + i * dst_ld, src + i * src_ld, (size_t)cols * sizeof(*dst));
}

/* Computes a tile of c in the thread's own memory and copies it. Rows of a
 * weight gradient are often a power of two apart: sums that were loaded from
 * and stored to c itself would evict each other from the caches. */
static void multiply_in_tile(const struct job *job, const struct tile *tile,
                             const struct tile *next, float *own)
{
    const struct vp_gemm *gemm = job->gemm;
    float *c = gemm->c ? gemm->c + tile->row * gemm->ldc + tile->col : NULL;
    int64_t ld = job->cut.tile_n;
    bool add = gemm->beta != 0.0f;

    if (c && add)
        copy_rows(own, ld, c, gemm->ldc, tile->rows, tile->cols);
    multiply_strips(job, tile, next, own, ld, add, true);
    if (c && !add && gemm->m * gemm->n >= STREAMED)
        vp_stream_rows(c, gemm->ldc, own, ld, tile->rows, tile->cols);
    else if (c)
        copy_rows(c, gemm->ldc, own, ld, tile->rows, tile->cols);
}

/* Neighbouring tasks share columns, as in gemm.c. A task after the last one has
 * no columns. */
static struct tile tile_of(const struct job *job, int task)
{
    int64_t row = task % job->cut.rows * job->cut.tile_m;
    int64_t col = task / job->cut.rows * job->cut.tile_n;

    return (struct tile){
        .row = row,
        .rows = at_most(job->cut.tile_m, job->gemm->m - row),
        .col = job->first_col + col,
        .cols = at_most(job->cut.tile_n, job->n_cols - col),
    };
}

static void run_tile(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    const struct vp_gemm *gemm = job->gemm;
    char *mine = (char *)gemm->scratch + job->layout.threads +
                 (size_t)thread * job->layout.thread_bytes;
    struct tile tile = tile_of(job, task);
    struct tile next = tile_of(job, task + vp_pool_threads(job->pool));
    bool own = job->kernels || !gemm->c; /* c is in the thread's area */
    float *c = own ? (float *)mine : gemm->c + tile.row * gemm->ldc + tile.col;
    int64_t ldc = own ? job->cut.tile_n : gemm->ldc;

    vp_pool_note(job->pool, thread, VP_CPU_PRODUCTS);
    if (job->kernels)
        multiply_in_tile(job, &tile, next.cols > 0 ? &next : NULL, c);
    else
        multiply_wide(job, &tile, c, ldc, gemm->beta != 0.0f, mine);
    vp_pool_note(job->pool, thread, VP_CPU_ELEMENTWISE);
    if (gemm->finish)
        gemm->finish(gemm->ctx, tile.row, tile.rows, tile.col, tile.cols, c,
                     ldc);
}

static void pack_a_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    int64_t n = job->strips_at_once * VP_STRIP;

    vp_pool_note(job->pool, thread, VP_CPU_PRODUCTS);
    pack_rows(job, task * n, at_most((task + 1) * n, job->gemm->m));
}

static void pack_b_task(void *ctx, int task, int thread)
{
    const struct job *job = ctx;
    int64_t n = job->strips_at_once * VP_STRIP;

    vp_pool_note(job->pool, thread, VP_CPU_PRODUCTS);
    pack_cols(job, job->first_col + task * n,
              job->first_col + at_most((task + 1) * n, job->n_cols));
}

static int n_packs(const struct job *job, int64_t n)
{
    return (int)divide_up(n, job->strips_at_once * VP_STRIP);
}

void vp_cpu_gemm_bf16(struct vp_pool *pool, const struct vp_gemm *gemm)
{
    struct job job = {
        .pool = pool,
        .gemm = gemm,
        .kernels = kernels_of(),
        .cut = vp_gemm_bf16_cut(gemm),
    };

    if (gemm->m == 0 || gemm->n == 0)
        return;
    job.layout = tiles_layout(gemm, &job.cut, vp_pool_threads(pool));
    job.strips_at_once = PACK_ELEMENTS / strip_size(gemm->k);
    if (job.strips_at_once < LEAST_STRIPS)
        job.strips_at_once = LEAST_STRIPS;
    if (job.kernels) {
        job.a = strips_of(&job, 0, gemm->m);
        vp_pool_run(pool, n_packs(&job, gemm->m), pack_a_task, &job);
    }
    for (; job.first_col < gemm->n; job.first_col += job.n_cols) {
        job.n_cols = at_most(job.layout.n_at_once, gemm->n - job.first_col);
        if (job.kernels) {
            job.b = strips_of(&job, job.layout.b, job.n_cols);
            vp_pool_run(pool, n_packs(&job, job.n_cols), pack_b_task, &job);
        }
        vp_pool_run(pool,
                    (int)(job.cut.rows * divide_up(job.n_cols, job.cut.tile_n)),
                    run_tile, &job);
    }
}

/* ---- On the calling thread ---------------------------------------------- */

static struct vp_gemm_cut uncut(int64_t m, int64_t n)
{
    return (struct vp_gemm_cut){ m, n, 1, 1 };
}

static struct layout here_layout(int64_t m, int64_t n, int64_t k)
{
    struct vp_gemm_cut cut = uncut(m, n);
    struct vp_gemm gemm = { .m = m, .n = n, .k = k };

    return layout_of(&gemm, &cut, 1, 0);
}

size_t vp_cpu_gemm_bf16_here_scratch(int64_t m, int64_t n, int64_t k)
{
    return here_layout(m, n, k).n_bytes;
}

void vp_cpu_gemm_bf16_here(const struct vp_gemm *gemm)
{
    struct job job = { .gemm = gemm,
                       .kernels = kernels_of(),
                       .cut = uncut(gemm->m, gemm->n),
                       .layout = here_layout(gemm->m, gemm->n, gemm->k) };
    struct tile whole = { 0, gemm->m, 0, gemm->n };
    bool add = gemm->beta != 0.0f;

    VP_BUG_ON(job.layout.n_at_once < gemm->n);
    if (!job.kernels) {
        multiply_wide(&job, &whole, gemm->c, gemm->ldc, add, gemm->scratch);
        return;
    }
    job.a = strips_of(&job, 0, gemm->m);
    job.b = strips_of(&job, job.layout.b, gemm->n);
    pack_rows(&job, 0, gemm->m);
    pack_cols(&job, 0, gemm->n);
    multiply_strips(&job, &whole, NULL, gemm->c, gemm->ldc, add, false);
}
