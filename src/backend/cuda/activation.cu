/* The activations of linear, and sums over columns. */
#include "backend/cuda/rows.cuh"

enum {
    THREADS = 128,
    TEAMS = 4,  /* of THREADS: they take the rows of a part in turns */
    BLOCKS = 2, /* of all teams, that a processor holds */
    ROWS = 2,   /* that a thread has in flight */
};

#define SQRT_HALF 0.70710678118654752440f    /* sqrt(1/2) */
#define SQRT_2_BY_PI 0.79788456080286535588f /* sqrt(2/pi) */
#define HALF_LOG2_E 0.72134752044448170368f  /* log2(e) / 2 */
#define GELU_CUBIC 0.044715f

/* exp(-z^2 / 2), and with it the normal distribution beyond |z| over that. Both
 * parts of GELU's slope want the same exponential. */
struct tail {
    float exp, ratio;
};

/* Abramowitz and Stegun, 7.1.26; to 3e-7 with rounding: for types of
 * two bytes. */
static __device__ inline struct tail tail_of(float z)
{
    struct tail tail;
    float t, sum, power = -HALF_LOG2_E * (z * z);

    asm("rcp.approx.ftz.f32 %0, %1;"
        : "=f"(t)
        : "f"(fmaf(fabsf(z), 0.3275911f * SQRT_HALF, 1.0f)));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(tail.exp) : "f"(power));
    sum = fmaf(t, 0.5f * 1.061405429f, 0.5f * -1.453152027f);
    sum = fmaf(t, sum, 0.5f * 1.421413741f);
    sum = fmaf(t, sum, 0.5f * -0.284496736f);
    sum = fmaf(t, sum, 0.5f * 0.254829592f);
    tail.ratio = t * sum;
    return tail;
}

/* z * the cumulative normal distribution */
template <typename T> static __device__ inline float gelu_erf(float z)
{
    struct tail tail;

    if (sizeof(T) == 4)
        return 0.5f * z * (1.0f + erff(z * SQRT_HALF));
    tail = tail_of(z);
    return fmaf(-fabsf(z), tail.exp * tail.ratio, fmaxf(z, 0.0f));
}

/* The cumulative distribution + z * its density. */
template <typename T> static __device__ inline float gelu_erf_slope(float z)
{
    const float peak = 0.5f * SQRT_2_BY_PI; /* of the density */
    struct tail tail;
    float slope;

    if (sizeof(T) == 4)
        return fmaf(z, peak * __expf(-0.5f * z * z),
                    fmaf(0.5f, erff(z * SQRT_HALF), 0.5f));
    tail = tail_of(z);
    slope = tail.exp * fmaf(-peak, fabsf(z), tail.ratio);
    return z < 0.0f ? slope : 1.0f - slope;
}

template <typename T, int ACT> static __device__ inline float act_value(float z)
{
    if (ACT == VP_ACT_RELU)
        return z <= 0.0f ? 0.0f : z; /* NaN stays NaN */
    if (ACT == VP_ACT_GELU_ERF)
        return gelu_erf<T>(z);
    if (ACT == VP_ACT_GELU_TANH) {
        float cubic = fmaf(GELU_CUBIC * z, z * z, z);

        return 0.5f * z * (1.0f + tanhf(SQRT_2_BY_PI * cubic));
    }
    return z;
}

/* d act(z) / dz */
template <typename T, int ACT> static __device__ inline float act_slope(float z)
{
    if (ACT == VP_ACT_RELU)
        return z > 0.0f ? 1.0f : 0.0f;
    if (ACT == VP_ACT_GELU_ERF)
        return gelu_erf_slope<T>(z);
    if (ACT == VP_ACT_GELU_TANH) {
        float cubic = fmaf(GELU_CUBIC * z, z * z, z);
        float t = tanhf(SQRT_2_BY_PI * cubic);
        float inner = SQRT_2_BY_PI * fmaf(3.0f * GELU_CUBIC * z, z, 1.0f);

        return fmaf(0.5f * z * fmaf(-t, t, 1.0f), inner, fmaf(0.5f, t, 0.5f));
    }
    return 1.0f;
}

/* ---- Forward ------------------------------------------------------------ */

template <typename T, int N, int ACT>
static __device__ inline void act_pack(T *out, const vp_pack<T, N> &z)
{
    float x[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = act_value<T, ACT>(vp_get(z, i));
    vp_store<N>(out, x);
}

/* A pack per thread; the last thread does what is left of n. */
template <typename T, int ACT>
static __global__ void act_kernel(T *out, const T *z, int64_t n)
{
    enum { N = vp_vec<T>::N };
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;

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

/* What one pass over a matrix is given: dz = dout * act'(z) and again = act(z)
 * unless NULL, and the column sums of dz in parts of rows unless `parts` is
 * NULL. */
struct pass {
    void *dz, *again;
    const void *dout, *z;
    float *parts; /* [n_parts, cols] */
    int64_t rows, cols, part;
};

/* Rows of a part: as many blocks as the devices this is made for hold at once,
 * each of whole turns of its teams. Depends on the shape only. */
static int64_t part_rows(int64_t rows, int64_t cols)
{
    int64_t turn = TEAMS * ROWS;

    return vp_parts_of(rows * vp_parts_of(cols, 1024), 132 * BLOCKS * turn) *
           turn;
}

template <typename T, int N, int ACT>
static __device__ inline void grad_pack(float *dz, const vp_pack<T, N> &dout,
                                        const vp_pack<T, N> &z)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        dz[i] = vp_get(dout, i);
        if (ACT != VP_ACT_NONE)
            dz[i] *= act_slope<T, ACT>(vp_get(z, i));
    }
    if (ACT != VP_ACT_NONE)
        vp_round_pack<T, N>(dz);
}

/* Writes the sums of the teams, added in their order. */
template <int N>
static __device__ inline void write_part(const struct pass &pass, float *sum,
                                         int64_t col)
{
    __shared__ float shared[TEAMS][N][THREADS];

#pragma unroll
    for (int i = 0; i < N; i++)
        shared[threadIdx.y][i][threadIdx.x] = sum[i];
    __syncthreads();
    if (threadIdx.y > 0 || col >= pass.cols)
        return;
    for (int team = 1; team < TEAMS; team++)
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += shared[team][i][threadIdx.x];
    vp_store<N>(pass.parts + blockIdx.y * pass.cols + col, sum);
}

/* A thread takes N columns of the rows of its team. */
template <typename T, int N, int ACT>
static __global__ void __launch_bounds__(THREADS *TEAMS, BLOCKS)
    pass_kernel(struct pass pass)
{
    int64_t col = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    int64_t begin = blockIdx.y * pass.part, end = begin + pass.part;
    int64_t step = TEAMS * pass.cols;
    vp_pack<T, N> dout[ROWS], z[ROWS];
    float sum[N] = { 0.0f }, dz[N];

    if (end > pass.rows)
        end = pass.rows;
    if (col >= pass.cols)
        end = begin;
    for (int64_t row = begin + threadIdx.y; row < end; row += TEAMS * ROWS) {
        int64_t at = row * pass.cols + col;

#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (row + r * TEAMS >= end)
                break;
            dout[r] = vp_read<N>((const T *)pass.dout + at + r * step);
            if (ACT != VP_ACT_NONE)
                z[r] = vp_read<N>((const T *)pass.z + at + r * step);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (row + r * TEAMS >= end)
                break;
            grad_pack<T, N, ACT>(dz, dout[r], z[r]);
            if (pass.dz)
                vp_store<N>((T *)pass.dz + at + r * step, dz);
            if (ACT != VP_ACT_NONE && pass.again)
                act_pack<T, N, ACT>((T *)pass.again + at + r * step, z[r]);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += dz[i];
        }
    }
    if (pass.parts)
        write_part<N>(pass, sum, col);
}

template <typename T, int N>
static void launch_pass(const struct pass *pass, enum vp_act act,
                        cudaStream_t stream)
{
    dim3 grid((unsigned)vp_parts_of(pass->cols, N * THREADS),
              (unsigned)vp_parts_of(pass->rows, pass->part));
    dim3 block(THREADS, TEAMS);

    switch (act) {
    case VP_ACT_RELU:
        pass_kernel<T, N, VP_ACT_RELU><<<grid, block, 0, stream>>>(*pass);
        break;
    case VP_ACT_GELU_ERF:
        pass_kernel<T, N, VP_ACT_GELU_ERF><<<grid, block, 0, stream>>>(*pass);
        break;
    case VP_ACT_GELU_TANH:
        pass_kernel<T, N, VP_ACT_GELU_TANH><<<grid, block, 0, stream>>>(*pass);
        break;
    default:
        pass_kernel<T, N, VP_ACT_NONE><<<grid, block, 0, stream>>>(*pass);
        break;
    }
}

template <typename T>
static void launch(const struct pass *pass, enum vp_act act,
                   cudaStream_t stream)
{
    if (vp_fits_packs<T>(pass->cols))
        launch_pass<T, vp_vec<T>::N>(pass, act, stream);
    else
        launch_pass<T, 1>(pass, act, stream);
}

static void run_pass(struct pass *pass, enum vp_act act, enum vp_dtype dtype,
                     cudaStream_t stream)
{
    pass->part = part_rows(pass->rows, pass->cols);
    VP_WITH_TYPE(dtype, launch<T>(pass, act, stream));
}

void vp_cuda_column_finish(float *dst, const void *parts, int64_t rows,
                           int64_t cols, bool add, cudaStream_t stream)
{
    struct vp_part_sums sums = {};

    sums.parts = (const float *)parts;
    sums.dst[0] = dst;
    sums.n_dst = 1;
    sums.n_parts = vp_parts_of(rows, part_rows(rows, cols));
    sums.cols = cols;
    sums.add = add;
    vp_cuda_add_parts(&sums, stream);
}

void vp_cuda_act_grad(void *dz, void *again, const void *dout, const void *z,
                      enum vp_act act, int64_t rows, int64_t cols,
                      enum vp_dtype dtype, void *parts, cudaStream_t stream)
{
    struct pass pass = {};

    pass.dz = dz;
    pass.again = again;
    pass.dout = dout;
    pass.z = z;
    pass.parts = (float *)parts;
    pass.rows = rows;
    pass.cols = cols;
    run_pass(&pass, act, dtype, stream);
}

void vp_cuda_column_sums(float *dst, const void *x, int64_t rows, int64_t cols,
                         enum vp_dtype dtype, bool add, void *scratch,
                         cudaStream_t stream)
{
    struct pass pass = {};

    pass.dout = x;
    pass.parts = (float *)scratch;
    pass.rows = rows;
    pass.cols = cols;
    run_pass(&pass, VP_ACT_NONE, dtype, stream);
    vp_cuda_column_finish(dst, scratch, rows, cols, add, stream);
}

size_t vp_cuda_column_scratch(int64_t rows, int64_t cols)
{
    int64_t n_parts = vp_parts_of(rows, part_rows(rows, cols));

    return vp_align_up((size_t)(n_parts * cols) * sizeof(float),
                       VP_TENSOR_ALIGN);
}

/* ---- Parts to the whole ------------------------------------------------- */

enum { SLICES = 32 };

/* A warp adds a slice of the parts for 32 columns, the first warp the
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
    float *dst = blockIdx.y == 0 ? sums.dst[0] : sums.dst[1];
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
    for (int i = 0; i < SLICES; i++)
        sum += shared[i][lane];
    dst[col] = sums.add ? dst[col] + sum : sum;
}

void vp_cuda_add_parts(const struct vp_part_sums *sums, cudaStream_t stream)
{
    dim3 grid((unsigned)vp_parts_of(sums->cols, 32), (unsigned)sums->n_dst);

    add_parts_kernel<<<grid, 32 * SLICES, 0, stream>>>(*sums);
}
