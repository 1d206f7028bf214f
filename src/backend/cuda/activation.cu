/* The activations of linear, and sums over columns. */
#include "backend/cuda/rows.cuh"

enum { THREADS = 128, ROWS = 4 /* in flight */ };

#define SQRT_HALF 0.70710678118654752440f    /* sqrt(1/2) */
#define SQRT_2_BY_PI 0.79788456080286535588f /* sqrt(2/pi) */
#define GELU_CUBIC 0.044715f

template <int ACT> static __device__ inline float act_value(float z)
{
    if (ACT == VP_ACT_RELU)
        return z <= 0.0f ? 0.0f : z; /* NaN stays NaN */
    if (ACT == VP_ACT_GELU_ERF)
        return 0.5f * z * (1.0f + erff(z * SQRT_HALF));
    if (ACT == VP_ACT_GELU_TANH) {
        float cubic = fmaf(GELU_CUBIC * z, z * z, z);

        return 0.5f * z * (1.0f + tanhf(SQRT_2_BY_PI * cubic));
    }
    return z;
}

/* d act(z) / dz */
template <int ACT> static __device__ inline float act_slope(float z)
{
    if (ACT == VP_ACT_RELU)
        return z > 0.0f ? 1.0f : 0.0f;
    if (ACT == VP_ACT_GELU_ERF) { /* cumulative normal + z * its density */
        float density = 0.5f * SQRT_2_BY_PI * __expf(-0.5f * z * z);

        return fmaf(z, density, fmaf(0.5f, erff(z * SQRT_HALF), 0.5f));
    }
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
static __device__ inline void act_pack(T *out, const T *z)
{
    float x[N];

    vp_load<N>(x, z);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = act_value<ACT>(x[i]);
    vp_store<N>(out, x);
}

/* A pack per thread; the last thread does what is left of n. */
template <typename T, int ACT>
static __global__ void act_kernel(T *out, const T *z, int64_t n)
{
    enum { N = vp_vec<T>::N };
    int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;

    if (i + N <= n) {
        act_pack<T, N, ACT>(out + i, z + i);
        return;
    }
    for (; i < n; i++)
        act_pack<T, 1, ACT>(out + i, z + i);
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

/* What one pass over a matrix is given: dz = dout * act'(z) unless dz is NULL,
 * and the column sums of dz in parts of rows unless `parts` is NULL. */
struct pass {
    void *dz;
    const void *dout, *z;
    float *parts; /* [n_parts, cols] */
    int64_t rows, cols, part;
};

/* Rows of a part: enough parts to fill the device, each long enough for its
 * sums to be small beside the rows. Depends on the shape only. */
static int64_t part_rows(int64_t rows, int64_t cols)
{
    int64_t part = vp_parts_of(rows * vp_parts_of(cols, 1024), 1056);

    return part < 16 ? 16 : vp_parts_of(part, ROWS) * ROWS;
}

template <typename T, int N, int ACT>
static __device__ inline void grad_pack(float *dz, const vp_pack<T, N> &dout,
                                        const vp_pack<T, N> &z)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        dz[i] = vp_get(dout, i);
        if (ACT != VP_ACT_NONE)
            dz[i] = vp_rounded<T>(dz[i] * act_slope<ACT>(vp_get(z, i)));
    }
}

/* A thread takes N columns of one part of the rows. */
template <typename T, int N, int ACT>
static __global__ void __launch_bounds__(THREADS) pass_kernel(struct pass pass)
{
    int64_t col = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    int64_t begin = blockIdx.y * pass.part, end = begin + pass.part;
    vp_pack<T, N> dout[ROWS], z[ROWS];
    float sum[N] = { 0.0f }, dz[N];

    if (col >= pass.cols)
        return;
    if (end > pass.rows)
        end = pass.rows;
    for (int64_t row = begin; row < end; row += ROWS) {
        int64_t at = row * pass.cols + col;

#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (row + r >= end)
                break;
            dout[r] = vp_read<N>((const T *)pass.dout + at + r * pass.cols);
            if (ACT != VP_ACT_NONE)
                z[r] = vp_read<N>((const T *)pass.z + at + r * pass.cols);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (row + r >= end)
                break;
            grad_pack<T, N, ACT>(dz, dout[r], z[r]);
            if (pass.dz)
                vp_store<N>((T *)pass.dz + at + r * pass.cols, dz);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += dz[i];
        }
    }
    if (pass.parts)
        vp_store<N>(pass.parts + blockIdx.y * pass.cols + col, sum);
}

template <typename T, int N>
static void launch_pass(const struct pass *pass, enum vp_act act,
                        cudaStream_t stream)
{
    dim3 grid((unsigned)vp_parts_of(pass->cols, N * THREADS),
              (unsigned)vp_parts_of(pass->rows, pass->part));

    switch (act) {
    case VP_ACT_RELU:
        pass_kernel<T, N, VP_ACT_RELU><<<grid, THREADS, 0, stream>>>(*pass);
        break;
    case VP_ACT_GELU_ERF:
        pass_kernel<T, N, VP_ACT_GELU_ERF><<<grid, THREADS, 0, stream>>>(*pass);
        break;
    case VP_ACT_GELU_TANH:
        pass_kernel<T, N, VP_ACT_GELU_TANH>
            <<<grid, THREADS, 0, stream>>>(*pass);
        break;
    default:
        pass_kernel<T, N, VP_ACT_NONE><<<grid, THREADS, 0, stream>>>(*pass);
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

void vp_cuda_act_grad(void *dz, const void *dout, const void *z,
                      enum vp_act act, int64_t rows, int64_t cols,
                      enum vp_dtype dtype, void *parts, cudaStream_t stream)
{
    struct pass pass = {};

    pass.dz = dz;
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
