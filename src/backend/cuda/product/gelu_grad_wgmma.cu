/* The kernel of gelu_grad.h for compute capability 9.0.
 *
 * It computes tiles of 128 rows and 256 columns. A cluster of two blocks
 * computes two tiles, one below the other; each block copies half of the w that
 * both need to both. The threads of a block do at the same time:
 *   one thread       starts copies of x and w to a ring of stages;
 *   two warpgroups   ("makers") multiply, half of the rows each;
 *   one warpgroup    ("writers") turns the last tile, which the makers stored
 *                    rounded in shared memory, into dz and gelu(z), and writes
 *                    these to device memory.
 * So the tensor cores wait neither for GELU nor for memory. Blocks are
 * persistent: they compute one tile after the other. */
#include "backend/cuda/product/activation.cuh"
#include "backend/cuda/product/gelu_grad.h"
#include "backend/cuda/ptx/tma.cuh"
#include "backend/cuda/ptx/tma_map.cuh"
#include "backend/cuda/ptx/wgmma_wide.cuh"

enum {
    ROWS = VP_GELU_TILE_ROWS,
    COLS = 256,
    DEPTH = VP_WG_DIM, /* summed elements per stage */
    STAGES = 3,
    CLUSTER = 2,
    BLOCKS = 132, /* at most: one for each processor of an H100 or H200 */
    BAND = 8,     /* tile rows of clusters that are computed together */
    N_MAKERS = 2, /* number of warpgroups */
    HALF = ROWS / N_MAKERS,
    N_WRITERS = 4, /* number of warps */
    THREADS = (1 + N_MAKERS + 1) * VP_WG_THREADS,
    GROUP = 4, /* rows that a writer loads at a time */
    N_GROUPS = HALF / N_WRITERS / GROUP,
    /* Registers per thread: 512 for one thread of each of the four
     * warpgroups. */
    COPIER_REGISTERS = 40,
    MAKER_REGISTERS = 176,
    WRITER_REGISTERS = 120,
};

struct maps {
    CUtensorMap x, w;
};

struct work {
    int rows, cols, depth;
    const void *z;
    void *dz, *recomputed;
    float *parts;
};

/* One step of DEPTH along the summed index. x: the rows of each maker. w: 64
 * columns of the result each. */
template <typename T> struct stage {
    vp_wg_tile<T> x[N_MAKERS], w[COLS / 64];
};

/* The 16 bytes number i of row r of `made` are at place i ^ (r % 8). There are
 * two sets of column sums: one may be read while the next is written. */
template <typename T> struct shared_memory {
    struct stage<T> ring[STAGES];
    T made[N_MAKERS][HALF][COLS];
    float sums[2][N_WRITERS][COLS];
    vp_barrier filled[STAGES], emptied[STAGES];
    vp_barrier ready[N_MAKERS], taken[N_MAKERS]; /* for `made`, of each maker */
};

/* The tiles that a block computes: first, first + step, ... below end. */
struct share {
    int rank; /* number of the block in the cluster */
    int first, step, end;
};

/* First row and column of a tile. */
struct place {
    int row, col;
};

/* The next stage of the ring, and the phase of its barriers: the number of
 * times the ring has wrapped around, modulo 2. */
struct ring_state {
    int stage, phase;
};

static __device__ inline void ring_advance(struct ring_state *state)
{
    if (++state->stage == STAGES) {
        state->stage = 0;
        state->phase ^= 1;
    }
}

static __host__ __device__ inline int parts_of(int n, int part)
{
    return (n + part - 1) / part;
}

static __host__ __device__ inline int count_tiles(int rows, int cols)
{
    return parts_of(rows, CLUSTER * ROWS) * parts_of(cols, COLS);
}

static __device__ inline struct share share_of(const struct work &work)
{
    return { vp_cluster_rank(), (int)blockIdx.x / CLUSTER,
             (int)gridDim.x / CLUSTER, count_tiles(work.rows, work.cols) };
}

/* Tiles are visited column by column within a band of rows, so that tiles
 * computed at the same time share most of x and w. */
static __device__ inline struct place place_of(const struct work &work,
                                               int tile, int rank)
{
    int per_band = BAND * parts_of(work.cols, COLS);
    int band = tile / per_band * BAND;
    int n_below = min((int)BAND, parts_of(work.rows, CLUSTER * ROWS) - band);

    tile %= per_band;
    return { ((band + tile % n_below) * CLUSTER + rank) * ROWS,
             tile / n_below * COLS };
}

/* ---- Copies ------------------------------------------------------------- */

/* Starts the copies of stage number k of a tile. */
template <typename T>
static __device__ inline void copy_stage(struct stage<T> &to,
                                         vp_barrier *filled,
                                         const struct maps &maps,
                                         struct place at, int rank, int k)
{
    enum { PART = COLS / 64 / CLUSTER }; /* tiles that this block copies */
    vp_wg_tile<T> *w = &to.w[rank * PART];

    vp_barrier_expect(filled, (int)sizeof(to));
    vp_tma_copy(&to.x, &maps.x, k * DEPTH, at.row, filled);
    at.col += rank * PART * 64;
#pragma unroll
    for (int i = 0; i < PART; i++)
        vp_tma_copy_to_all<CLUSTER>(&w[i], &maps.w, at.col + i * 64, k * DEPTH,
                                    filled);
}

template <typename T>
static __device__ inline void copy_tiles(shared_memory<T> &shared,
                                         const struct maps &maps,
                                         const struct work &work,
                                         struct share share)
{
    struct ring_state next = { 0, 0 };

    for (int tile = share.first; tile < share.end; tile += share.step) {
        struct place at = place_of(work, tile, share.rank);

#pragma unroll 1
        for (int k = 0; k * DEPTH < work.depth; k++) {
            vp_barrier_wait(&shared.emptied[next.stage], next.phase ^ 1);
            copy_stage<T>(shared.ring[next.stage], &shared.filled[next.stage],
                          maps, at, share.rank, k);
            ring_advance(&next);
        }
    }
}

/* ---- Products ----------------------------------------------------------- */

/* Columns [128 half, 128 half + 128) of the maker's rows (+)= the product of a
 * stage. */
template <typename T>
static __device__ inline void multiply(float (&c)[16][4],
                                       const struct stage<T> &stage, int maker,
                                       int half, bool add)
{
    vp_wg_product_wide<T, true>(c, vp_wg_tiles_of(&stage.x[maker]),
                                vp_wg_tiles_of(&stage.w[2 * half]), add);
}

/* Arrives in all blocks of the cluster: this maker no longer reads a stage. */
static __device__ inline void release(vp_barrier *emptied)
{
    if (threadIdx.x % VP_WG_THREADS < CLUSTER)
        vp_barrier_arrive_at(emptied, threadIdx.x % VP_WG_THREADS);
}

/* Stores 128 columns, rounded, in shared memory for the writers. */
template <typename T>
static __device__ inline void leave(T (&made)[HALF][COLS],
                                    const float (&c)[16][4], int half)
{
    int lane = threadIdx.x % 32;
    int row = threadIdx.x % VP_WG_THREADS / 32 * 16 + lane % 16;

#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        int chunk = (16 * half + i + lane / 16) ^ row % 8;
        const uint32_t x[4] = { vp_pack<T>(c[i][0], c[i][1]),
                                vp_pack<T>(c[i][2], c[i][3]),
                                vp_pack<T>(c[i + 1][0], c[i + 1][1]),
                                vp_pack<T>(c[i + 1][2], c[i + 1][3]) };

        vp_store_matrices(&made[row][8 * chunk], x);
    }
}

/* Two accumulators, for the left and the right columns: while one is stored for
 * the writers, the tensor cores work on the other. */
template <typename T>
static __device__ inline void make_tiles(shared_memory<T> &shared,
                                         const struct work &work,
                                         struct share share, int maker)
{
    float left[16][4], right[16][4];
    struct ring_state next = { 0, 0 };
    int tile = share.first, odd = 0;

    vp_barrier_wait(&shared.filled[0], 0);
    vp_wg_fence();
    multiply<T>(left, shared.ring[0], maker, 0, false);
    do {
        int last = next.stage;

        vp_wg_fence();
        multiply<T>(right, shared.ring[last], maker, 1, false);
        ring_advance(&next);
        for (int k = DEPTH; k < work.depth; k += DEPTH) {
            vp_barrier_wait(&shared.filled[next.stage], next.phase);
            vp_wg_fence();
            multiply<T>(left, shared.ring[next.stage], maker, 0, true);
            multiply<T>(right, shared.ring[next.stage], maker, 1, true);
            vp_wg_wait<2>();
            release(&shared.emptied[last]);
            last = next.stage;
            ring_advance(&next);
        }
        vp_barrier_wait(&shared.taken[maker], odd ^ 1);
        vp_wg_wait_wide<1>(left);
        leave<T>(shared.made[maker], left, 0);
        tile += share.step;
        if (tile < share.end) {
            vp_barrier_wait(&shared.filled[next.stage], next.phase);
            vp_wg_fence();
            multiply<T>(left, shared.ring[next.stage], maker, 0, false);
            vp_wg_wait_wide<1>(right);
        } else {
            vp_wg_wait_wide<0>(right);
        }
        release(&shared.emptied[last]);
        leave<T>(shared.made[maker], right, 1);
        vp_barrier_arrive(&shared.ready[maker]);
        vp_wg_wait_wide<0>(left);
        odd ^= 1;
    } while (tile < share.end);
}

/* ---- Results to memory -------------------------------------------------- */

/* Eight elements. */
union pack {
    uint4 all;
    uint32_t two[4];
};

/* Position of a thread's columns within a maker's rows: `at` is the element in
 * the thread's first row, `left` the number of rows from there to the end. */
struct spot {
    int64_t at;
    int left;
};

static __device__ inline struct spot spot_of(const struct work &work,
                                             struct place at, int maker)
{
    int row = at.row + maker * HALF, col = at.col + threadIdx.x % 32 * 8;
    int mine = threadIdx.x % VP_WG_THREADS / 32;

    return { (int64_t)(row + mine) * work.cols + col,
             col < work.cols ? min((int)HALF, work.rows - row) - mine : 0 };
}

static __device__ inline struct spot spot_below(const struct work &work,
                                                struct spot spot)
{
    return { spot.at + (int64_t)GROUP * N_WRITERS * work.cols,
             spot.left - GROUP * N_WRITERS };
}

/* Reads GROUP rows of z, zeros beyond the last. They are not needed again soon,
 * so they need not stay in the cache. */
template <typename T>
static __device__ inline void read_z(union pack (&z)[GROUP],
                                     const struct work &work, struct spot spot)
{
    const T *from = (const T *)work.z + spot.at;

#pragma unroll
    for (int i = 0; i < GROUP; i++, from += (int64_t)N_WRITERS * work.cols) {
        z[i].all = make_uint4(0, 0, 0, 0);
        if (i * N_WRITERS < spot.left)
            z[i].all = __ldcs((const uint4 *)from);
    }
}

template <typename T>
static __device__ inline void read_made(union pack (&x)[GROUP],
                                        const T (&made)[HALF][COLS], int group)
{
    int lane = threadIdx.x % 32;
    int row = threadIdx.x % VP_WG_THREADS / 32 + group * GROUP * N_WRITERS;

#pragma unroll
    for (int i = 0; i < GROUP; i++, row += N_WRITERS)
        x[i].all = *(const uint4 *)&made[row][(lane ^ row % 8) * 8];
}

/* Turns the rounded product in `dz` into dz, and adds it to `sum`. Returns
 * gelu(z). */
template <typename T>
static __device__ inline union pack gelu_grad(union pack &dz, union pack z,
                                              float (&sum)[8])
{
    union pack recomputed;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 x = vp_unpack<T>(z.two[i]), d = vp_unpack<T>(dz.two[i]);
        struct vp_act_point p = vp_gelu_erf<T>(x.x), q = vp_gelu_erf<T>(x.y);

        recomputed.two[i] = vp_pack<T>(p.value, q.value);
        dz.two[i] = vp_pack<T>(d.x * p.slope, d.y * q.slope);
        d = vp_unpack<T>(dz.two[i]);
        sum[2 * i] += d.x;
        sum[2 * i + 1] += d.y;
    }
    return recomputed;
}

template <typename T>
static __device__ inline void write_rows(union pack (&x)[GROUP],
                                         const union pack (&z)[GROUP],
                                         const struct work &work,
                                         struct spot spot, float (&sum)[8])
{
    T *dz = (T *)work.dz + spot.at,
      *recomputed = (T *)work.recomputed + spot.at;

#pragma unroll
    for (int i = 0; i < GROUP; i++) {
        int64_t below = (int64_t)i * N_WRITERS * work.cols;
        union pack act = gelu_grad<T>(x[i], z[i], sum);

        if (i * N_WRITERS >= spot.left)
            continue;
        *(uint4 *)(dz + below) = x[i].all;
        *(uint4 *)(recomputed + below) = act.all;
    }
}

/* Adds the column sums of the warps of writers, and writes those of the
 * tile. */
static __device__ inline void write_sums(float (&shared)[N_WRITERS][COLS],
                                         const float (&sum)[8],
                                         const struct work &work,
                                         struct place at)
{
    int thread = threadIdx.x % VP_WG_THREADS, col = 2 * thread;
    float4 *mine = (float4 *)&shared[thread / 32][thread % 32 * 8];
    float2 all;

    mine[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    mine[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
    asm volatile("bar.sync 1, %0;" : : "n"((int)VP_WG_THREADS) : "memory");
    all = *(const float2 *)&shared[0][col];
    for (int i = 1; i < N_WRITERS; i++) {
        all.x += shared[i][col];
        all.y += shared[i][col + 1];
    }
    if (at.row < work.rows && at.col + col < work.cols)
        *(float2 *)&work
             .parts[(int64_t)(at.row / ROWS) * work.cols + at.col + col] = all;
}

/* The next rows of z are always being loaded while a group is computed. */
template <typename T>
static __device__ inline void write_tiles(shared_memory<T> &shared,
                                          const struct work &work,
                                          struct share share)
{
    struct place at = place_of(work, share.first, share.rank);
    union pack next[GROUP], z[GROUP], x[GROUP];
    int odd = 0;

    read_z<T>(next, work, spot_of(work, at, 0));
    for (int tile = share.first; tile < share.end; tile += share.step) {
        struct place after = place_of(
            work, min(tile + share.step, share.end - 1), share.rank);
        float sum[8] = { 0.0f };

#pragma unroll 1
        for (int maker = 0; maker < N_MAKERS; maker++) {
            struct spot spot = spot_of(work, at, maker);
            struct spot then = maker + 1 < N_MAKERS
                                   ? spot_of(work, at, maker + 1)
                                   : spot_of(work, after, 0);

            vp_barrier_wait(&shared.ready[maker], odd);
#pragma unroll 1
            for (int i = 0; i < N_GROUPS; i++) {
                struct spot below = spot_below(work, spot);

#pragma unroll
                for (int k = 0; k < GROUP; k++)
                    z[k] = next[k];
                read_z<T>(next, work, i + 1 < N_GROUPS ? below : then);
                read_made(x, shared.made[maker], i);
                if (i + 1 == N_GROUPS)
                    vp_barrier_arrive(&shared.taken[maker]);
                write_rows<T>(x, z, work, spot, sum);
                spot = below;
            }
        }
        write_sums(shared.sums[odd], sum, work, at);
        at = after;
        odd ^= 1;
    }
}

/* ---- Blocks ------------------------------------------------------------- */

template <typename T>
static __device__ inline void make_barriers(shared_memory<T> &shared)
{
    for (int i = 0; i < STAGES; i++) {
        vp_barrier_init(&shared.filled[i], 1);
        vp_barrier_init(&shared.emptied[i], N_MAKERS * CLUSTER);
    }
    for (int i = 0; i < N_MAKERS; i++) {
        vp_barrier_init(&shared.ready[i], VP_WG_THREADS);
        vp_barrier_init(&shared.taken[i], VP_WG_THREADS);
    }
    vp_barrier_publish();
}

template <typename T>
static __global__ void __cluster_dims__(CLUSTER, 1, 1)
    __launch_bounds__(THREADS, 1)
        product_kernel(const __grid_constant__ struct maps maps,
                       const struct work work)
{
    extern __shared__ __align__(VP_WG_ALIGN) unsigned char memory[];
    shared_memory<T> &shared = *(shared_memory<T> *)memory;
    struct share share = share_of(work);
    int team = threadIdx.x / VP_WG_THREADS;

    if (threadIdx.x == 0)
        make_barriers(shared);
    vp_cluster_sync();
    if (team == 0) {
        vp_wg_give_registers<COPIER_REGISTERS>();
        if (threadIdx.x == 0)
            copy_tiles<T>(shared, maps, work, share);
        __syncwarp();
    } else if (team <= N_MAKERS) {
        vp_wg_take_registers<MAKER_REGISTERS>();
        make_tiles<T>(shared, work, share, team - 1);
    } else {
        vp_wg_give_registers<WRITER_REGISTERS>();
        write_tiles<T>(shared, work, share);
    }
    /* A block may not exit while the other one still writes to its shared
     * memory. */
    vp_cluster_sync();
}

/* ---- Launches ----------------------------------------------------------- */

static CUtensorMap map_of(enum vp_dtype dtype, const void *data, int64_t rows,
                          int64_t cols, int box_rows)
{
    const struct vp_tma_tensor tensor = {
        dtype, data, cols,     rows,
        0,     cols, box_rows, CU_TENSOR_MAP_L2_PROMOTION_L2_256B
    };

    return vp_tma_map(&tensor);
}

/* The copies need rows of a multiple of 16 bytes. */
bool vp_gelu_grad_takes(const struct vp_gelu_grad *p)
{
    return p->dtype != VP_DTYPE_F32 && p->cols % 8 == 0 && p->depth % 8 == 0 &&
           p->rows <= INT32_MAX && p->cols <= INT32_MAX &&
           p->depth <= INT32_MAX && vp_fills_gelu_tiles(p->rows, p->cols) &&
           vp_cuda_has_wgmma(vp_cuda_capability()) && vp_tma_encode();
}

template <typename T>
static void launch(const struct vp_gelu_grad *p, const struct maps *maps,
                   cudaStream_t stream)
{
    const struct work work = {
        (int)p->rows, (int)p->cols,  (int)p->depth,    p->z,
        p->dz,        p->recomputed, (float *)p->parts
    };
    int bytes = (int)sizeof(shared_memory<T>);
    int n = CLUSTER * count_tiles(work.rows, work.cols);
    unsigned grid = (unsigned)(n < BLOCKS ? n : BLOCKS);

    cudaFuncSetAttribute(product_kernel<T>,
                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    product_kernel<T><<<grid, THREADS, bytes, stream>>>(*maps, work);
}

void vp_gelu_grad_run(const struct vp_gelu_grad *p, cudaStream_t stream)
{
    const struct maps maps = {
        map_of(p->dtype, p->x, p->rows, p->depth, ROWS),
        map_of(p->dtype, p->w, p->depth, p->cols, DEPTH),
    };

    if (p->dtype == VP_DTYPE_F16)
        launch<__half>(p, &maps, stream);
    else
        launch<__nv_bfloat16>(p, &maps, stream);
}
