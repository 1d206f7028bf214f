/* Kernels of linear's activations, forward and backward, and sums over
 * columns. */
#include "backend/cuda/product/activation.cuh"
#include "backend/cuda/product/gelu_grad.h"
#include "backend/cuda/rows/rows.cuh"

enum { THREADS = 128 };

/* ---- Forward ------------------------------------------------------------ */

template <typename T, int N, int ACT>
static __device__ inline void act_pack(T *out, const vp_pack<T, N> &z)
{
    float x[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = vp_act_at<T, ACT>(vp_get(z, i)).value;
    vp_store<N>(out, x);
}

/* One pack per thread; the last thread does the remaining elements. Blocks
 * begin at the end of the array: the elements that a product wrote last are
 * still in the cache, and the elements written last here are those that the
 * next product reads first. */
template <typename T, int ACT>
static __global__ void act_kernel(T *out, const T *z, int64_t n)
{
    enum { N = vp_vec<T>::N };
    int64_t block = gridDim.x - 1 - blockIdx.x;
    int64_t i = (block * THREADS + threadIdx.x) * N;

    if (i + N <= n) {
        act_pack<T, N, ACT>(out + i, vp_read<N>(z + i));
        return;
    }
    for (; i < n; i++)
        act_pack<T, 1, ACT>(out + i, vp_read<1>(z + i));
}

template <typename T>
static void launch_act(T *out, const T *z, enum vp_act act, int64_t n,
                       cudaStream_t stream)
{
    unsigned blocks = (unsigned)vp_parts_of(n, vp_vec<T>::N * THREADS);

    switch (act) {
    case VP_ACT_RELU:
        act_kernel<T, VP_ACT_RELU><<<blocks, THREADS, 0, stream>>>(out, z, n);
        break;
    case VP_ACT_GELU_ERF:
        act_kernel<T, VP_ACT_GELU_ERF>
            <<<blocks, THREADS, 0, stream>>>(out, z, n);
        break;
    case VP_ACT_GELU_TANH:
        act_kernel<T, VP_ACT_GELU_TANH>
            <<<blocks, THREADS, 0, stream>>>(out, z, n);
        break;
    default:
        act_kernel<T, VP_ACT_NONE><<<blocks, THREADS, 0, stream>>>(out, z, n);
        break;
    }
}

void vp_cuda_act(void *out, const void *z, enum vp_act act, int64_t n,
                 enum vp_dtype dtype, cudaStream_t stream)
{
    VP_WITH_TYPE(dtype, launch_act((T *)out, (const T *)z, act, n, stream));
}

/* ---- Backward, and sums of columns -------------------------------------- */

/* Arguments of one pass over a matrix. Writes dz = dout * act'(z); without an
 * activation dz is dout and not written. Unless NULL, `recomputed` receives
 * act(z), and `parts` the column sums of dz in parts of rows. */
struct pass {
    void *dz, *recomputed;
    const void *dout, *z;
    float *parts; /* [parts, cols] */
    int64_t rows, cols;
    struct vp_cuda_cut cut;
};

/* The packs of the rows that a thread works on at a time. */
template <typename T, int N, int N_ROWS> struct pass_rows {
    vp_pack<T, N> dout[N_ROWS], z[N_ROWS];
};

/* Reads a pack of each of the team's rows from `row` on. Rows from `end` on are
 * not read. */
template <int ACT, typename T, int N, int N_ROWS>
static __device__ inline void read_rows(pass_rows<T, N, N_ROWS> &rows,
                                        const struct pass &pass, int64_t row,
                                        int64_t end, int64_t col)
{
#pragma unroll
    for (int r = 0; r < N_ROWS; r++, row += VP_TEAMS) {
        int64_t at = row * pass.cols + col;

        if (row >= end)
            break;
        rows.dout[r] = vp_read<N>((const T *)pass.dout + at);
        if (ACT != VP_ACT_NONE)
            rows.z[r] = vp_read<N>((const T *)pass.z + at);
    }
}

/* Writes dz, and `recomputed`, of one pack from element `at` on. */
template <typename T, int N, int ACT>
static __device__ inline void write_pack(float *dz, const struct pass &pass,
                                         const vp_pack<T, N> &dout,
                                         const vp_pack<T, N> &z, int64_t at)
{
    float recomputed[N];

#pragma unroll
    for (int i = 0; i < N; i++) {
        struct vp_act_point p = vp_act_at<T, ACT>(vp_get(z, i));

        recomputed[i] = p.value;
        dz[i] = vp_get(dout, i) * p.slope;
    }
    vp_write((T *)pass.dz + at, vp_round_pack<T, N>(dz));
    if (pass.recomputed)
        vp_store<N>((T *)pass.recomputed + at, recomputed);
}

/* Adds the teams' sums of the part that begins at row `begin`. */
template <int N>
static __device__ inline void end_part(
    vp_team_sums<N, VP_TEAM, VP_TEAMS> *shared, float *sum,
    const struct pass &pass, int64_t begin, int64_t col)
{
    vp_put_team(shared, sum);
    __syncthreads();
    if (threadIdx.y > 0 || col >= pass.cols)
        return;
    vp_add_teams(sum, shared);
    vp_store<N>(pass.parts + begin / pass.cut.part * pass.cols + col, sum);
}

/* A block works on some parts of the rows and VP_TEAM packs of columns. A team
 * loads its next N_ROWS rows while it computes. */
template <typename T, int N, int N_ROWS, int ACT>
static __global__ void __launch_bounds__(VP_TEAM *VP_TEAMS)
    pass_kernel(struct pass pass)
{
    __shared__ vp_team_sums<N, VP_TEAM, VP_TEAMS> shared;
    int64_t col = ((int64_t)blockIdx.x * VP_TEAM + threadIdx.x) * N;
    int64_t begin = blockIdx.y * pass.cut.block;
    int64_t last = min(begin + pass.cut.block, pass.rows);
    int64_t end = col < pass.cols ? last : begin;
    pass_rows<T, N, N_ROWS> rows, next;
    float dz[N];

    read_rows<ACT>(next, pass, begin + threadIdx.y, end, col);
    for (; begin < last; begin += pass.cut.part) {
        int64_t stop = min(begin + pass.cut.part, end);
        float sum[N] = { 0.0f };

        for (int64_t row = begin + threadIdx.y; row < stop;
             row += N_ROWS * VP_TEAMS) {
            rows = next;
            read_rows<ACT>(next, pass, row + N_ROWS * VP_TEAMS, end, col);
#pragma unroll
            for (int r = 0; r < N_ROWS; r++) {
                int64_t at = (row + r * VP_TEAMS) * pass.cols + col;

                if (row + r * VP_TEAMS >= stop)
                    break;
                if (ACT != VP_ACT_NONE)
                    write_pack<T, N, ACT>(dz, pass, rows.dout[r], rows.z[r],
                                          at);
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum[i] += ACT != VP_ACT_NONE ? dz[i]
                                                 : vp_get(rows.dout[r], i);
            }
        }
        if (!pass.parts)
            continue;
        end_part<N>(&shared, sum, pass, begin, col);
        __syncthreads();
    }
}

template <typename T, int N, int N_ROWS, int ACT>
static void launch_pass(const struct pass *pass, cudaStream_t stream)
{
    dim3 grid((unsigned)vp_parts_of(pass->cols, N * VP_TEAM),
              (unsigned)vp_parts_of(pass->rows, pass->cut.block));

    pass_kernel<T, N, N_ROWS, ACT>
        <<<grid, dim3(VP_TEAM, VP_TEAMS), 0, stream>>>(*pass);
}

template <typename T, int N>
static void launch_act_pass(const struct pass *pass, enum vp_act act,
                            cudaStream_t stream)
{
    switch (act) {
    case VP_ACT_RELU:
        launch_pass<T, N, 2, VP_ACT_RELU>(pass, stream);
        break;
    case VP_ACT_GELU_ERF:
        launch_pass<T, N, 2, VP_ACT_GELU_ERF>(pass, stream);
        break;
    case VP_ACT_GELU_TANH:
        launch_pass<T, N, 2, VP_ACT_GELU_TANH>(pass, stream);
        break;
    default:
        launch_pass<T, N, 4, VP_ACT_NONE>(pass, stream);
        break;
    }
}

template <typename T>
static void launch(const struct pass *pass, enum vp_act act,
                   cudaStream_t stream)
{
    if (vp_fits_packs<T>(pass->cols))
        launch_act_pass<T, vp_vec<T>::N>(pass, act, stream);
    else
        launch_act_pass<T, 1>(pass, act, stream);
}

void vp_cuda_parts_finish(float *dst, const void *parts, int64_t n_parts,
                          int64_t cols, bool add, cudaStream_t stream)
{
    struct vp_part_sums sums = {};

    sums.parts = (const float *)parts;
    sums.dst[0] = dst;
    sums.n_dst = 1;
    sums.n_parts = n_parts;
    sums.cols = cols;
    sums.add = add;
    vp_cuda_add_parts(&sums, stream);
}

void vp_cuda_column_finish(float *dst, const void *parts, int64_t rows,
                           int64_t cols, enum vp_act act, bool add,
                           cudaStream_t stream)
{
    vp_cuda_parts_finish(dst, parts, vp_cuda_column_parts(rows, cols, act),
                         cols, add, stream);
}

void vp_cuda_act_grad(void *dz, void *recomputed, const void *dout,
                      const void *z, enum vp_act act, int64_t rows,
                      int64_t cols, enum vp_dtype dtype, void *parts,
                      cudaStream_t stream)
{
    struct pass pass = {};

    pass.dz = dz;
    pass.recomputed = recomputed;
    pass.dout = dout;
    pass.z = z;
    pass.parts = (float *)parts;
    pass.rows = rows;
    pass.cols = cols;
    pass.cut = vp_cuda_cut_of(rows, cols, act);
    VP_WITH_TYPE(dtype, launch<T>(&pass, act, stream));
}

void vp_cuda_column_sums(float *dst, const void *x, int64_t rows, int64_t cols,
                         enum vp_act act, enum vp_dtype dtype, bool add,
                         void *scratch, cudaStream_t stream)
{
    struct pass pass = {};

    pass.dout = x;
    pass.parts = (float *)scratch;
    pass.rows = rows;
    pass.cols = cols;
    pass.cut = vp_cuda_cut_of(rows, cols, act);
    VP_WITH_TYPE(dtype, launch<T>(&pass, VP_ACT_NONE, stream));
    vp_cuda_column_finish(dst, scratch, rows, cols, act, add, stream);
}

/* ---- Sums of parts ------------------------------------------------------ */

enum { SLICES = 16 };

/* Each warp adds a slice of the parts for 32 columns; the first warp adds the
 * slices. */
static __global__ void __launch_bounds__(32 * SLICES)
    add_parts_kernel(struct vp_part_sums sums)
{
    __shared__ float shared[SLICES][32];
    int slice = threadIdx.x / 32, lane = threadIdx.x % 32;
    int64_t col = (int64_t)blockIdx.x * 32 + lane;
    int64_t stride = sums.n_dst * sums.cols;
    int64_t begin = sums.n_parts * slice / SLICES;
    int64_t end = sums.n_parts * (slice + 1) / SLICES;
    const float *parts = sums.parts + blockIdx.y * sums.cols + col;
    float *dst = blockIdx.y == 0   ? sums.dst[0]
                 : blockIdx.y == 1 ? sums.dst[1]
                                   : sums.dst[2];
    float sum = 0.0f;

    if (!dst)
        return;
    if (col < sums.cols) {
#pragma unroll 8
        for (int64_t i = begin; i < end; i++)
            sum += parts[i * stride];
    }
    shared[slice][lane] = sum;
    __syncthreads();
    if (slice > 0 || col >= sums.cols)
        return;
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < SLICES; i++)
        sum += shared[i][lane];
    dst[col] = sums.add ? dst[col] + sum : sum;
}

void vp_cuda_add_parts(const struct vp_part_sums *sums, cudaStream_t stream)
{
    dim3 grid((unsigned)vp_parts_of(sums->cols, 32), (unsigned)sums->n_dst);

    add_parts_kernel<<<grid, 32 * SLICES, 0, stream>>>(*sums);
}
