/* layernorm: out = xhat * gamma + beta, xhat = (x - mean) / std.
 * x, out: [rows, C]; gamma, beta: [C]; aux0: mean and 1 / std, [rows, 2].
 *
 * A block takes a row at a time and a thread the same few columns of each: x
 * is read once and stays in registers, and the sums over rows of backward need
 * no exchange between threads. Neighbours in a list (dropout, add) can be done
 * on the way. Rows that are too long or not aligned have plain kernels. */
#include "backend/cuda/rows.cuh"

enum {
    NARROW = 256, /* threads; of most models */
    WIDE = 1024,
    ROWS = 4, /* in flight in backward */
    WIDE_ROWS = 1,
    PLAIN = 256, /* threads where a row is read several times */
};

/* Parts of W: enough to fill the device, each long enough for its sums to be
 * small beside the rows. Depends on the shape only. */
static int64_t part_rows(int64_t rows)
{
    int64_t part = vp_parts_of(vp_parts_of(rows, 528), ROWS) * ROWS;

    return part < 2 * ROWS ? 2 * ROWS : part;
}

int64_t vp_cuda_norm_parts(int64_t rows)
{
    return vp_parts_of(rows, part_rows(rows));
}

template <typename T> static bool fits_registers(int64_t cols)
{
    return vp_fits_packs<T>(cols) && cols / vp_vec<T>::N <= WIDE;
}

/* Whole warps, a pack per thread. */
template <typename T> static unsigned threads_of(int64_t cols)
{
    return (unsigned)vp_parts_of(cols / vp_vec<T>::N, 32) * 32;
}

/* ---- Forward ------------------------------------------------------------ */

template <typename T, int N>
static __device__ inline void normalise(float *x, float mean, float rstd,
                                        const vp_pack<T, N> &gamma,
                                        const vp_pack<T, N> &beta)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = (x[i] - mean) * rstd * vp_get(gamma, i) + vp_get(beta, i);
}

/* `again`, of N columns from element `at` on. */
template <typename T, int N>
static __device__ inline void write_again(const struct vp_norm_grad &grad,
                                          const vp_pack<T, N> &x, float2 stat,
                                          int64_t at, int64_t col)
{
    float y[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] = vp_get(x, i);
    normalise<T, N>(y, stat.x, stat.y, vp_read<N>((const T *)grad.gamma + col),
                    vp_read<N>((const T *)grad.beta + col));
    vp_store<N>((T *)grad.again + at, y);
}

template <typename T, int THREADS>
static __global__ void __launch_bounds__(THREADS)
    norm_kernel(struct vp_norm norm)
{
    enum { N = vp_vec<T>::N };
    __shared__ float shared[2][32];
    uint32_t row = blockIdx.x, col = threadIdx.x * N;
    int64_t cols = norm.in.cols;
    bool mine = col < cols;
    vp_residual_pack<T, N> in;
    vp_drop_words<N> words = {};
    vp_pack<T, N> gamma, beta;
    float x[N];
    float sum = 0.0f, squares = 0.0f, mean, rstd;

    if (mine) {
        in = vp_read_residual<T, N>(norm.in, row, col);
        gamma = vp_read<N>((const T *)norm.gamma + col);
        beta = vp_read<N>((const T *)norm.beta + col);
        if (norm.in.has_drop)
            words = vp_words_of<N>(norm.in.drop,
                                   vp_drop_row_of(norm.in.drop, row), col);
        vp_end_residual<T, N>(x, in, words, norm.in, row, col);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum += x[i];
    }
    mean = vp_block_sum(sum, shared[0]) / (float)cols;
    if (mine) {
#pragma unroll
        for (int i = 0; i < N; i++)
            squares += (x[i] - mean) * (x[i] - mean);
    }
    rstd = 1.0f /
           sqrtf(vp_block_sum(squares, shared[1]) / (float)cols + norm.eps);
    if (threadIdx.x == 0)
        *(float2 *)(norm.stat + 2 * (int64_t)row) = make_float2(mean, rstd);
    if (mine) {
        normalise<T, N>(x, mean, rstd, gamma, beta);
        vp_store<N>((T *)norm.out + row * cols + col, x);
    }
}

template <typename T>
static bool launch_norm(const struct vp_norm *norm, cudaStream_t stream)
{
    unsigned blocks = (unsigned)norm->in.rows;
    unsigned threads = threads_of<T>(norm->in.cols);

    if (!fits_registers<T>(norm->in.cols))
        return false;
    if (threads <= NARROW)
        norm_kernel<T, NARROW><<<blocks, threads, 0, stream>>>(*norm);
    else
        norm_kernel<T, WIDE><<<blocks, threads, 0, stream>>>(*norm);
    return true;
}

bool vp_cuda_norm(const struct vp_norm *norm, enum vp_dtype dtype,
                  cudaStream_t stream)
{
    VP_WITH_TYPE(dtype, return launch_norm<T>(norm, stream));
}

/* Any number of columns: the row is read once for each of its sums. */
template <typename T>
static __global__ void plain_norm_kernel(struct vp_norm norm)
{
    __shared__ float shared[2][32];
    int64_t row = blockIdx.x, cols = norm.in.cols;
    const T *x = (const T *)norm.in.x + row * cols;
    const T *gamma = (const T *)norm.gamma, *beta = (const T *)norm.beta;
    T *out = (T *)norm.out + row * cols;
    float sum = 0.0f, squares = 0.0f, mean, rstd;

    for (int64_t j = threadIdx.x; j < cols; j += PLAIN)
        sum += vp_float(x[j]);
    mean = vp_block_sum(sum, shared[0]) / (float)cols;
    for (int64_t j = threadIdx.x; j < cols; j += PLAIN)
        squares += (vp_float(x[j]) - mean) * (vp_float(x[j]) - mean);
    rstd = 1.0f /
           sqrtf(vp_block_sum(squares, shared[1]) / (float)cols + norm.eps);
    if (threadIdx.x == 0) {
        norm.stat[2 * row] = mean;
        norm.stat[2 * row + 1] = rstd;
    }
    for (int64_t j = threadIdx.x; j < cols; j += PLAIN) {
        float y = vp_float(x[j]);

        normalise<T, 1>(&y, mean, rstd, vp_read<1>(gamma + j),
                        vp_read<1>(beta + j));
        out[j] = vp_round<T>(y);
    }
}

template <typename T>
static void launch_plain_norm(const struct vp_norm *norm, cudaStream_t stream)
{
    plain_norm_kernel<T><<<(unsigned)norm->in.rows, PLAIN, 0, stream>>>(*norm);
}

struct vp_norm vp_cuda_norm_of(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    const struct vp_value *out = vp_call_value(call, args->op->out);
    struct vp_norm norm = {};

    norm.in.x = args->in[0];
    norm.in.rows = out->rows;
    norm.in.cols = out->cols;
    norm.gamma = args->par[0];
    norm.beta = args->par[1];
    norm.eps = args->op->attr.eps;
    norm.out = args->out;
    norm.stat = (float *)args->aux[0];
    return norm;
}

enum vp_status vp_cuda_layernorm_f(const struct vp_cuda_call *call)
{
    enum vp_dtype dtype = vp_call_value(call, call->args.op->out)->dtype;
    struct vp_norm norm = vp_cuda_norm_of(call);

    if (!vp_cuda_norm(&norm, dtype, call->stream))
        VP_WITH_TYPE(dtype, launch_plain_norm<T>(&norm, call->stream));
    return VP_OK;
}

/* ---- Backward ----------------------------------------------------------- */

/* The rows that a thread works on at a time: its pack of each. */
template <typename T, int N_ROWS> struct norm_rows {
    vp_pack<T, vp_vec<T>::N> x[N_ROWS], dout[N_ROWS];
    float2 stat[N_ROWS]; /* mean, 1/std */
};

static __device__ inline float xhat_of(float x, float2 stat)
{
    return (x - stat.x) * stat.y;
}

/* Rows from `end` on, and columns that are not `mine`, count as zeros. */
template <typename T, int N_ROWS>
static __device__ inline void read_rows(norm_rows<T, N_ROWS> &rows,
                                        const struct vp_norm_grad &grad,
                                        int64_t row, int64_t end, int64_t col)
{
    enum { N = vp_vec<T>::N };
    const vp_pack<T, N> zeros = {};

#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        int64_t at = (row + r) * grad.cols + col;
        bool exists = row + r < end, mine = exists && col < grad.cols;

        rows.x[r] = mine ? vp_read<N>((const T *)grad.x + at) : zeros;
        rows.dout[r] = mine ? vp_read<N>((const T *)grad.dout + at) : zeros;
        rows.stat[r] = exists ? ((const float2 *)grad.stat)[row + r]
                              : make_float2(0.0f, 0.0f);
    }
}

/* Adds the rows, in order, to the thread's columns of dgamma and dbeta. */
template <typename T, int N_ROWS>
static __device__ inline void sum_rows(float *dgamma, float *dbeta,
                                       const norm_rows<T, N_ROWS> &rows)
{
#pragma unroll
    for (int r = 0; r < N_ROWS; r++)
#pragma unroll
        for (int i = 0; i < vp_vec<T>::N; i++) {
            float d = vp_get(rows.dout[r], i);
            float xhat = xhat_of(vp_get(rows.x[r], i), rows.stat[r]);

            dgamma[i] = fmaf(d, xhat, dgamma[i]);
            dbeta[i] += d;
        }
}

/* The means over the row, for each row, of g = dout * gamma and g * xhat. */
template <typename T, int N_ROWS>
static __device__ inline void row_means(float (&means)[N_ROWS][2],
                                        const norm_rows<T, N_ROWS> &rows,
                                        const float *gamma, float cols,
                                        float (*shared)[2 * N_ROWS])
{
    int warp = threadIdx.x / 32, n_warps = blockDim.x / 32;

#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        float sum_g = 0.0f, sum_gx = 0.0f;

#pragma unroll
        for (int i = 0; i < vp_vec<T>::N; i++) {
            float g = vp_get(rows.dout[r], i) * gamma[i];

            sum_g += g;
            sum_gx = fmaf(g, xhat_of(vp_get(rows.x[r], i), rows.stat[r]),
                          sum_gx);
        }
        sum_g = vp_warp_sum(sum_g);
        sum_gx = vp_warp_sum(sum_gx);
        if (threadIdx.x % 32 == 0) {
            shared[warp][2 * r] = sum_g;
            shared[warp][2 * r + 1] = sum_gx;
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        means[r][0] = means[r][1] = 0.0f;
        for (int i = 0; i < n_warps; i++) {
            means[r][0] += shared[i][2 * r];
            means[r][1] += shared[i][2 * r + 1];
        }
        means[r][0] /= cols;
        means[r][1] /= cols;
    }
}

/* dx of one pack, and what dropout makes of it: dx = (g - mean(g) - xhat *
 * mean(g * xhat)) / std */
template <typename T>
static __device__ inline void write_dx(const struct vp_norm_grad &grad,
                                       const vp_pack<T, vp_vec<T>::N> &x,
                                       const vp_pack<T, vp_vec<T>::N> &dout,
                                       float2 stat, const float *gamma,
                                       const float *means, int64_t row,
                                       int64_t col)
{
    enum { N = vp_vec<T>::N };
    int64_t at = row * grad.cols + col;
    float dx[N], base[N];

    if (grad.base)
        vp_load<N>(base, (const T *)grad.base + at);
    if (grad.again)
        write_again<T, N>(grad, x, stat, at, col);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float g = vp_get(dout, i) * gamma[i];
        float xhat = xhat_of(vp_get(x, i), stat);

        dx[i] = (g - means[0] - xhat * means[1]) * stat.y;
        dx[i] = grad.base ? base[i] + dx[i] : dx[i];
    }
    vp_round_pack<T, N>(dx);
    vp_store<N>((T *)grad.dx + at, dx);
    if (!grad.dbranch)
        return;
    if (grad.drop_base)
        vp_load<N>(base, (const T *)grad.drop_base + at);
    vp_drop_pack<N>(dx, grad.drop,
                    vp_words_of<N>(grad.drop,
                                   vp_drop_row_of(grad.drop, (uint32_t)row),
                                   (uint32_t)col));
#pragma unroll
    for (int i = 0; i < N; i++)
        dx[i] = grad.drop_base ? base[i] + dx[i] : dx[i];
    vp_store<N>((T *)grad.dbranch + at, dx);
}

/* A block: one part of the rows. */
template <typename T, int N_ROWS, int THREADS>
static __global__ void __launch_bounds__(THREADS)
    norm_grad_kernel(struct vp_norm_grad grad, int64_t part)
{
    enum { N = vp_vec<T>::N };
    __shared__ float shared[2][THREADS / 32][2 * N_ROWS];
    int64_t begin = blockIdx.x * part, col = threadIdx.x * N;
    int64_t end = begin + part < grad.rows ? begin + part : grad.rows;
    float gamma[N] = { 0.0f }, dgamma[N] = { 0.0f }, dbeta[N] = { 0.0f };
    float means[N_ROWS][2];
    norm_rows<T, N_ROWS> rows;
    int turn = 0; /* the other half of `shared` may still be read */

    if (col < grad.cols)
        vp_load<N>(gamma, (const T *)grad.gamma + col);
    for (int64_t row = begin; row < end; row += N_ROWS) {
        read_rows(rows, grad, row, end, col);
        if (grad.parts)
            sum_rows(dgamma, dbeta, rows);
        if (!grad.dx)
            continue;
        row_means(means, rows, gamma, (float)grad.cols, shared[turn]);
        turn ^= 1;
#pragma unroll
        for (int r = 0; r < N_ROWS; r++)
            if (row + r < end && col < grad.cols)
                write_dx<T>(grad, rows.x[r], rows.dout[r], rows.stat[r], gamma,
                            means[r], row + r, col);
    }
    if (grad.parts && col < grad.cols) {
        float *sums = grad.parts + 2 * blockIdx.x * grad.cols + col;

        vp_store<N>(sums, dgamma);
        vp_store<N>(sums + grad.cols, dbeta);
    }
}

template <typename T>
static bool launch_norm_grad(const struct vp_norm_grad *grad,
                             cudaStream_t stream)
{
    int64_t part = part_rows(grad->rows);
    unsigned blocks = (unsigned)vp_cuda_norm_parts(grad->rows);
    unsigned threads = threads_of<T>(grad->cols);

    if (!fits_registers<T>(grad->cols))
        return false;
    if (threads <= NARROW)
        norm_grad_kernel<T, ROWS, NARROW>
            <<<blocks, threads, 0, stream>>>(*grad, part);
    else
        norm_grad_kernel<T, WIDE_ROWS, WIDE>
            <<<blocks, threads, 0, stream>>>(*grad, part);
    return true;
}

bool vp_cuda_norm_grad(const struct vp_norm_grad *grad, enum vp_dtype dtype,
                       cudaStream_t stream)
{
    VP_WITH_TYPE(dtype, return launch_norm_grad<T>(grad, stream));
}

/* Any number of columns: dx of a row per block. */
template <typename T>
static __global__ void plain_dx_kernel(struct vp_norm_grad grad)
{
    __shared__ float shared[2][32];
    int64_t row = blockIdx.x, cols = grad.cols;
    const T *x = (const T *)grad.x + row * cols;
    const T *dout = (const T *)grad.dout + row * cols;
    const T *gamma = (const T *)grad.gamma;
    T *dx = (T *)grad.dx + row * cols;
    float2 stat = ((const float2 *)grad.stat)[row];
    float sum_g = 0.0f, sum_gx = 0.0f;

    for (int64_t j = threadIdx.x; j < cols; j += PLAIN) {
        float g = vp_float(dout[j]) * vp_float(gamma[j]);

        sum_g += g;
        sum_gx = fmaf(g, xhat_of(vp_float(x[j]), stat), sum_gx);
    }
    sum_g = vp_block_sum(sum_g, shared[0]) / (float)cols;
    sum_gx = vp_block_sum(sum_gx, shared[1]) / (float)cols;
    for (int64_t j = threadIdx.x; j < cols; j += PLAIN) {
        float g = vp_float(dout[j]) * vp_float(gamma[j]);
        float xhat = xhat_of(vp_float(x[j]), stat);
        float d = (g - sum_g - xhat * sum_gx) * stat.y;

        if (grad.again)
            write_again<T, 1>(grad, vp_read<1>(x + j), stat, row * cols + j, j);
        vp_put<1>(dx + j, grad.base != NULL, &d);
    }
}

/* ... and the sums of a part, a column per thread. */
template <typename T>
static __global__ void plain_parts_kernel(struct vp_norm_grad grad,
                                          int64_t part)
{
    int64_t begin = blockIdx.x * part, cols = grad.cols;
    int64_t end = begin + part < grad.rows ? begin + part : grad.rows;
    int64_t col = (int64_t)blockIdx.y * PLAIN + threadIdx.x;
    float dgamma = 0.0f, dbeta = 0.0f;

    if (col >= cols)
        return;
    for (int64_t row = begin; row < end; row++) {
        float2 stat = ((const float2 *)grad.stat)[row];
        float d = vp_float(((const T *)grad.dout)[row * cols + col]);
        float x = vp_float(((const T *)grad.x)[row * cols + col]);

        dgamma = fmaf(d, xhat_of(x, stat), dgamma);
        dbeta += d;
    }
    grad.parts[2 * blockIdx.x * cols + col] = dgamma;
    grad.parts[(2 * blockIdx.x + 1) * cols + col] = dbeta;
}

template <typename T>
static void launch_plain_grad(const struct vp_norm_grad *grad,
                              cudaStream_t stream)
{
    dim3 parts((unsigned)vp_cuda_norm_parts(grad->rows),
               (unsigned)vp_parts_of(grad->cols, PLAIN));

    if (grad->dx)
        plain_dx_kernel<T><<<(unsigned)grad->rows, PLAIN, 0, stream>>>(*grad);
    if (grad->parts)
        plain_parts_kernel<T>
            <<<parts, PLAIN, 0, stream>>>(*grad, part_rows(grad->rows));
}

struct vp_norm_grad vp_cuda_norm_grad_of(const struct vp_cuda_call *call)
{
    const struct vp_kargs *args = &call->args;
    const struct vp_value *out = vp_call_value(call, args->op->out);
    struct vp_norm_grad grad = {};

    grad.x = args->in[0];
    grad.dout = args->dout;
    grad.gamma = args->par[0];
    grad.beta = args->par[1];
    grad.stat = (const float *)args->aux[0];
    grad.rows = out->rows;
    grad.cols = out->cols;
    if (call->phase == VP_PHASE_W) {
        grad.parts = (float *)args->scratch;
        return grad;
    }
    grad.dx = args->din[0];
    grad.again = args->again;
    grad.base = args->din_add[0] ? args->din[0] : NULL;
    return grad;
}

static void differentiate(const struct vp_cuda_call *call)
{
    enum vp_dtype dtype = vp_call_value(call, call->args.op->out)->dtype;
    struct vp_norm_grad grad = vp_cuda_norm_grad_of(call);

    if (!vp_cuda_norm_grad(&grad, dtype, call->stream))
        VP_WITH_TYPE(dtype, launch_plain_grad<T>(&grad, call->stream));
}

bool vp_cuda_norm_wants_w(const struct vp_cuda_call *w)
{
    return w->args.dpar[0] || w->args.dpar[1];
}

void vp_cuda_norm_finish(const struct vp_cuda_call *w)
{
    const struct vp_value *out = vp_call_value(w, w->args.op->out);
    struct vp_part_sums sums = {};

    sums.parts = (const float *)w->args.scratch;
    sums.dst[0] = (float *)w->args.dpar[0];
    sums.dst[1] = (float *)w->args.dpar[1];
    sums.n_dst = 2;
    sums.n_parts = vp_cuda_norm_parts(out->rows);
    sums.cols = out->cols;
    sums.add = w->args.mb->accumulate;
    vp_cuda_add_parts(&sums, w->stream);
}

enum vp_status vp_cuda_layernorm_b(const struct vp_cuda_call *call)
{
    if (call->args.din[0])
        differentiate(call);
    return VP_OK;
}

enum vp_status vp_cuda_layernorm_w(const struct vp_cuda_call *call)
{
    if (!vp_cuda_norm_wants_w(call))
        return VP_OK;
    differentiate(call);
    vp_cuda_norm_finish(call);
    return VP_OK;
}

size_t vp_cuda_layernorm_scratch(const struct vp_graph *graph,
                                 const struct vp_op *op, enum vp_phase phase)
{
    const struct vp_value *out = &graph->values[op->out];

    if (phase != VP_PHASE_W)
        return 0;
    return vp_align_up((size_t)(vp_cuda_norm_parts(out->rows) * 2 * out->cols) *
                           sizeof(float),
                       VP_TENSOR_ALIGN);
}
