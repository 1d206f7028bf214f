/* Kernels of layernorm: out = xhat * gamma + beta, xhat = (x - mean) / std. x,
 * out: [rows, C]; gamma, beta: [C]; aux0: mean and 1 / std, [rows, 2].
 *
 * A row is read once and stays in registers. In backward each thread has the
 * same few columns of many rows, so that sums over rows need no exchange
 * between threads; the next rows are loaded into shared memory. Neighbouring
 * calls in a list (dropout, add) can be fused. The number of instructions per
 * element, about 40 in backward, then matters as much as memory. Rows that are
 * too long or not aligned have plain kernels. */
#include "backend/cuda/ptx/copy.cuh"
#include "backend/cuda/rows/rows.cuh"

enum {
    WIDE = 1024, /* maximum number of packs in a row */
    PACKS = 4,   /* packs of a row per thread in forward */
    PLAIN = 256, /* threads of the plain kernels */
};

template <typename T> static bool fits_registers(int64_t cols)
{
    return vp_fits_packs<T>(cols) && cols / vp_vec<T>::N <= WIDE;
}

/* Number of threads for a row, in whole warps, with `packs` packs each. */
template <typename T> static unsigned threads_of(int64_t cols, int packs)
{
    return (unsigned)vp_parts_of(cols / vp_vec<T>::N, 32 * packs) * 32;
}

/* Barrier of the threads that share a row: those with the same threadIdx.y. */
static __device__ inline void wait_for_team(void)
{
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x)
                 : "memory");
}

/* ---- Forward ------------------------------------------------------------ */

static __device__ inline float xhat_of(float x, float2 stat)
{
    return (x - stat.x) * stat.y;
}

/* Sum over the threads of a row. `shared` has a float for each warp of the
 * block; each call needs its own. */
static __device__ inline float row_sum(float x, float *shared)
{
    int n_warps = blockDim.x / 32;
    float sum = 0.0f;

    x = vp_warp_sum(x);
    if (n_warps == 1)
        return x;
    shared += threadIdx.y * n_warps;
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    wait_for_team();
    for (int i = 0; i < n_warps; i++)
        sum += shared[i];
    return sum;
}

/* First column of this thread's pack number p. */
template <int N> static __device__ inline uint32_t pack_col(int p)
{
    return (p * blockDim.x + threadIdx.x) * N;
}

/* Sets x to this thread's packs of the input, which may be the end of a
 * residual branch. */
template <typename T, int N>
static __device__ inline void read_packs(float (*x)[N],
                                         const struct vp_residual &res,
                                         uint32_t row)
{
    vp_residual_pack<T, N> in[PACKS];
    vp_drop_words<N> words[PACKS] = {};
    struct vp_drop_row at = {};
    uint32_t col[PACKS];

#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        col[p] = pack_col<N>(p);
        if (col[p] < res.cols)
            in[p] = vp_read_residual<T, N>(res, row, col[p]);
    }
    if (res.has_drop) {
        at = vp_drop_row_of(res.drop, row);
#pragma unroll
        for (int p = 0; p < PACKS; p += 2)
            vp_words_of_two<N>(words + p, res.drop, { at, col[p] },
                               { at, col[p + 1] });
    }
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        if (col[p] < res.cols)
            vp_end_residual<T, N>(x[p], in[p], words[p], res, row, col[p]);
}

/* One row for each threadIdx.y of the block. `share`: 1 / columns. */
template <typename T>
static __global__ void __launch_bounds__(WIDE / PACKS)
    norm_kernel(struct vp_norm norm, float share)
{
    enum { N = vp_vec<T>::N };
    __shared__ float shared[2][WIDE / PACKS / 32];
    uint32_t row = blockIdx.x * blockDim.y + threadIdx.y;
    uint32_t cols = (uint32_t)norm.in.cols;
    vp_pack<T, N> gamma[PACKS], beta[PACKS];
    float x[PACKS][N], sum = 0.0f, squares = 0.0f, mean, rstd;

    if (row >= norm.in.rows)
        return;
    read_packs<T, N>(x, norm.in, row);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        uint32_t col = pack_col<N>(p);

        if (col >= cols)
            break;
        gamma[p] = vp_read<N>((const T *)norm.gamma + col);
        beta[p] = vp_read<N>((const T *)norm.beta + col);
#pragma unroll
        for (int i = 0; i < N; i++)
            sum += x[p][i];
    }
    mean = row_sum(sum, shared[0]) * share;
#pragma unroll
    for (int p = 0; p < PACKS; p++)
        if (pack_col<N>(p) < cols)
#pragma unroll
            for (int i = 0; i < N; i++) {
                x[p][i] -= mean;
                squares = fmaf(x[p][i], x[p][i], squares);
            }
    rstd = rsqrtf(row_sum(squares, shared[1]) * share + norm.eps);
    if (threadIdx.x == 0)
        *(float2 *)(norm.stat + 2 * (int64_t)row) = make_float2(mean, rstd);
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        uint32_t col = pack_col<N>(p);

        if (col >= cols)
            break;
#pragma unroll
        for (int i = 0; i < N; i++)
            x[p][i] = fmaf(x[p][i] * rstd, vp_get(gamma[p], i),
                           vp_get(beta[p], i));
        vp_store<N>((T *)norm.out + (int64_t)row * cols + col, x[p]);
    }
}

template <typename T>
static bool launch_norm(const struct vp_norm *norm, cudaStream_t stream)
{
    unsigned threads = threads_of<T>(norm->in.cols, PACKS);
    unsigned rows; /* rows per block */

    if (!fits_registers<T>(norm->in.cols))
        return false;
    rows = threads < 128 ? 128 / threads : 1;
    norm_kernel<T>
        <<<(unsigned)vp_parts_of(norm->in.rows, rows), dim3(threads, rows), 0,
           stream>>>(*norm, 1.0f / (float)norm->in.cols);
    return true;
}

bool vp_cuda_norm(const struct vp_norm *norm, enum vp_dtype dtype,
                  cudaStream_t stream)
{
    VP_WITH_TYPE(dtype, return launch_norm<T>(norm, stream));
}

/* For any number of columns: the row is read again for each of its sums. */
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
    rstd = rsqrtf(vp_block_sum(squares, shared[1]) / (float)cols + norm.eps);
    if (threadIdx.x == 0) {
        norm.stat[2 * row] = mean;
        norm.stat[2 * row + 1] = rstd;
    }
    for (int64_t j = threadIdx.x; j < cols; j += PLAIN)
        out[j] = vp_round<T>(fmaf((vp_float(x[j]) - mean) * rstd,
                                  vp_float(gamma[j]), vp_float(beta[j])));
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

/* The next rows of each team. A thread has one pack of each row, which only
 * this thread accesses. */
template <typename T, int N_ROWS, int THREADS, int TEAMS> struct norm_ahead {
    vp_pack<T, vp_vec<T>::N> x[N_ROWS][TEAMS][THREADS],
        dout[N_ROWS][TEAMS][THREADS];
};

/* Terms of dx for the rows that a thread works on; g = dout * gamma. */
template <int N, int N_ROWS> struct norm_terms {
    float xhat[N_ROWS][N], g[N_ROWS][N], rstd[N_ROWS];
};

/* A thread's sums over rows. */
template <int N> struct norm_sums {
    float dgamma[N], dbeta[N];
    float dbranch[N]; /* sums of dx, after dropout if there is any */
};

/* Rows and columns have 32 bits, so the product is one instruction. */
static __device__ inline int64_t element(const struct vp_norm_grad &grad,
                                         uint32_t row, uint32_t col)
{
    return (int64_t)((uint64_t)row * (uint32_t)grad.cols + col);
}

/* Starts to load the team's rows from `row` on. Rows from `end` on, and columns
 * beyond the last, are filled with zeros. For `base` there is no room in shared
 * memory: it is prefetched into the L2 cache, and read later. */
template <typename T, int N_ROWS, int THREADS, int TEAMS>
static __device__ inline void send_for_rows(
    norm_ahead<T, N_ROWS, THREADS, TEAMS> *ahead, float2 *stat,
    const struct vp_norm_grad &grad, uint32_t row, uint32_t end, uint32_t col)
{
#pragma unroll
    for (int r = 0; r < N_ROWS; r++, row += TEAMS) {
        bool exists = row < end, mine = exists && col < (uint32_t)grad.cols;
        int64_t at = mine ? element(grad, row, col) : 0;

        vp_copy16_async(&ahead->x[r][threadIdx.y][threadIdx.x],
                        (const T *)grad.x + at, mine);
        vp_copy16_async(&ahead->dout[r][threadIdx.y][threadIdx.x],
                        (const T *)grad.dout + at, mine);
        if (mine && grad.base)
            asm volatile(
                "prefetch.global.L2 [%0];" ::"l"((const T *)grad.base + at));
        stat[r] = ((const float2 *)grad.stat)[exists ? row : 0];
    }
    vp_copy_commit();
}

template <int TEAMS, typename T, int N, int N_ROWS>
static __device__ inline void read_base(vp_pack<T, N> (&base)[N_ROWS],
                                        const struct vp_norm_grad &grad,
                                        uint32_t row, uint32_t end,
                                        uint32_t col)
{
#pragma unroll
    for (int r = 0; r < N_ROWS; r++, row += TEAMS)
        if (row < end && col < grad.cols)
            base[r] = vp_read<N>((const T *)grad.base +
                                 element(grad, row, col));
}

/* Takes the loaded rows, and adds to the column sums. Returns, for this
 * thread's packs, sum g and sum g * xhat of the first row, then of the
 * second. */
template <typename T, int N_ROWS, int THREADS, int TEAMS, int N>
static __device__ inline float4 take_rows(
    norm_terms<N, N_ROWS> &terms, norm_sums<N> &sums,
    const norm_ahead<T, N_ROWS, THREADS, TEAMS> *ahead, const float2 *stat,
    const float *gamma)
{
    float sum[4] = { 0.0f };

    vp_copy_wait<0>();
#pragma unroll
    for (int r = 0; r < N_ROWS; r++) {
        vp_pack<T, N> x = ahead->x[r][threadIdx.y][threadIdx.x];
        vp_pack<T, N> dout = ahead->dout[r][threadIdx.y][threadIdx.x];

        terms.rstd[r] = stat[r].y;
#pragma unroll
        for (int i = 0; i < N; i++) {
            float d = vp_get(dout, i), g = d * gamma[i];
            float xhat = xhat_of(vp_get(x, i), stat[r]);

            sums.dgamma[i] = fmaf(d, xhat, sums.dgamma[i]);
            sums.dbeta[i] += d;
            sum[2 * r] += g;
            sum[2 * r + 1] = fmaf(g, xhat, sum[2 * r + 1]);
            terms.xhat[r][i] = xhat;
            terms.g[r][i] = g;
        }
    }
    return make_float4(sum[0], sum[1], sum[2], sum[3]);
}

/* Sums over a warp: lanes 0 .. 7 return the sum of x, the next eight that of y,
 * then z, w. Each exchange halves the number of values per lane. */
static __device__ inline float warp_sums(float4 v)
{
    bool upper = threadIdx.x & 16, odd = threadIdx.x & 8;
    float a = upper ? v.z : v.x, b = upper ? v.w : v.y;

    a += __shfl_xor_sync(0xFFFFFFFFu, upper ? v.x : v.z, 16);
    b += __shfl_xor_sync(0xFFFFFFFFu, upper ? v.y : v.w, 16);
    v.x = odd ? b : a;
    v.x += __shfl_xor_sync(0xFFFFFFFFu, odd ? a : b, 8);
    for (int lane = 4; lane > 0; lane /= 2)
        v.x += __shfl_xor_sync(0xFFFFFFFFu, v.x, lane);
    return v.x;
}

static __device__ inline float4 add4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* Sums over the threads of a row; `shared` has a float4 for each warp. */
template <int WARPS>
static __device__ inline float4 row_sums(float4 sum, float4 *shared)
{
    int n_warps = blockDim.x / 32;
    float part = warp_sums(sum);

    if (threadIdx.x % 8 == 0)
        ((float *)shared)[threadIdx.x / 8] = part;
    wait_for_team();
    sum = shared[0];
#pragma unroll(WARPS < 8 ? WARPS : 4)
    for (int i = 1; i < WARPS; i++)
        if (i < n_warps)
            sum = add4(sum, shared[i]);
    return sum;
}

template <typename T, int N>
static __device__ inline void add_pack(float *dx, const vp_pack<T, N> &base)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        dx[i] = vp_get(base, i) + dx[i];
}

/* Writes dx of a pack from element `at` on: (g - mean(g) - xhat * mean(g *
 * xhat)) / std, + base. */
template <typename T, int N>
static __device__ inline void write_dx(float *dx,
                                       const struct vp_norm_grad &grad,
                                       const vp_pack<T, N> &base,
                                       const float *g, const float *xhat,
                                       float2 means, float rstd, int64_t at)
{
    float shift = -means.x * rstd, slope = -means.y * rstd;

#pragma unroll
    for (int i = 0; i < N; i++)
        dx[i] = fmaf(g[i], rstd, fmaf(xhat[i], slope, shift));
    if (grad.base)
        add_pack(dx, base);
    vp_write((T *)grad.dx + at, vp_round_pack<T, N>(dx));
}

/* Writes dropout(dx), and returns it in `dx`. */
template <typename T, int N>
static __device__ inline void write_dbranch(float *dx,
                                            const struct vp_norm_grad &grad,
                                            vp_drop_words<N> words, int64_t at)
{
    vp_drop_pack<N>(dx, grad.drop, words);
    vp_write((T *)grad.dbranch + at, vp_round_pack<T, N>(dx));
}

/* Recomputes a pack of the forward result, bit for bit. */
template <typename T, int N>
static __device__ inline void write_recomputed(T *recomputed, const float *xhat,
                                               const float *gamma,
                                               const vp_pack<T, N> &beta)
{
    float y[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] = fmaf(xhat[i], gamma[i], vp_get(beta, i));
    vp_store<N>(recomputed, y);
}

template <int N, int THREADS, int TEAMS>
static __device__ inline void write_sums(
    const struct vp_norm_grad &grad, norm_sums<N> &sums, uint32_t col,
    vp_team_sums<N, THREADS, TEAMS> *shared)
{
    float *part = grad.parts + (int64_t)grad.n_sums * blockIdx.x * grad.cols +
                  col;

    if (TEAMS > 1) {
        vp_put_team(&shared[0], sums.dgamma);
        vp_put_team(&shared[1], sums.dbeta);
        vp_put_team(&shared[2], sums.dbranch);
        __syncthreads();
        if (threadIdx.y > 0)
            return;
        vp_add_teams(sums.dgamma, &shared[0]);
        vp_add_teams(sums.dbeta, &shared[1]);
        vp_add_teams(sums.dbranch, &shared[2]);
    }
    if (col >= grad.cols)
        return;
    vp_store<N>(part, sums.dgamma);
    vp_store<N>(part + grad.cols, sums.dbeta);
    if (grad.n_sums == 3)
        vp_store<N>(part + 2 * grad.cols, sums.dbranch);
}

/* Random bytes for this thread's pack of a row, and of the team's next row,
 * which is `to_next` rows further. */
template <int N>
static __device__ inline void read_words(vp_drop_words<N> *words,
                                         const struct vp_drop &drop,
                                         struct vp_drop_row at, int to_next,
                                         uint32_t col)
{
    struct vp_drop_row next = at;

    vp_drop_row_move(&next, drop, to_next);
    vp_words_of_two<N>(words, drop, { at, col }, { next, col });
}

/* One block for each part of the rows. Its teams of THREADS threads take the
 * rows in turn, N_ROWS at a time, and load the next ones while they compute. */
template <typename T, int N_ROWS, int THREADS, int TEAMS>
static __global__ void __launch_bounds__(THREADS *TEAMS)
    norm_grad_kernel(struct vp_norm_grad grad, uint32_t part, float share)
{
    enum { N = vp_vec<T>::N, STRIDE = N_ROWS * TEAMS };
    __shared__ union {
        norm_ahead<T, N_ROWS, THREADS, TEAMS> ahead;
        vp_team_sums<N, THREADS, TEAMS> sums[TEAMS > 1 ? 3 : 1];
    } shared;
    __shared__ float4 warps[2][TEAMS][THREADS / 32];
    uint32_t row = blockIdx.x * part + threadIdx.y, col = threadIdx.x * N;
    uint32_t end = min((blockIdx.x + 1) * part, (uint32_t)grad.rows);
    struct vp_drop_row drop_row = {};
    float gamma[N] = { 0.0f };
    vp_pack<T, N> beta = {};
    norm_sums<N> sums = {};
    float2 stat[N_ROWS];
    int buffer = 0; /* index in `warps`; the other may still be read */

    send_for_rows(&shared.ahead, stat, grad, row, end, col);
    if (col < grad.cols) {
        vp_load<N>(gamma, (const T *)grad.gamma + col);
        beta = vp_read<N>((const T *)grad.beta + col);
    }
    if (grad.dbranch)
        drop_row = vp_drop_row_of(grad.drop, row);
    for (; row < end; row += STRIDE) {
        norm_terms<N, N_ROWS> terms;
        vp_drop_words<N> words[2];
        vp_pack<T, N> base[N_ROWS];
        float4 sum = take_rows(terms, sums, &shared.ahead, stat, gamma);

        send_for_rows(&shared.ahead, stat, grad, row + STRIDE, end, col);
        if (!grad.dx)
            continue;
        if (grad.base)
            read_base<TEAMS>(base, grad, row, end, col);
        if (grad.dbranch) {
            read_words<N>(words, grad.drop, drop_row, TEAMS, col);
            vp_drop_row_move(&drop_row, grad.drop, STRIDE);
        }
        sum = row_sums<THREADS / 32>(sum, warps[buffer][threadIdx.y]);
        buffer ^= 1;
#pragma unroll
        for (int r = 0; r < N_ROWS; r++) {
            int64_t at = element(grad, row + r * TEAMS, col);
            float2 means = make_float2((r ? sum.z : sum.x) * share,
                                       (r ? sum.w : sum.y) * share);
            float dx[N];

            if (row + r * TEAMS >= end || col >= grad.cols)
                break;
            if (grad.recomputed_out)
                write_recomputed((T *)grad.recomputed_out + at, terms.xhat[r],
                                 gamma, beta);
            write_dx(dx, grad, base[r], terms.g[r], terms.xhat[r], means,
                     terms.rstd[r], at);
            if (grad.dbranch)
                write_dbranch<T, N>(dx, grad, words[r], at);
#pragma unroll
            for (int i = 0; i < N; i++)
                sums.dbranch[i] += dx[i];
        }
    }
    if (!grad.parts)
        return;
    vp_copy_wait<0>();
    __syncthreads(); /* shared.sums takes the memory of shared.ahead */
    write_sums(grad, sums, col, shared.sums);
}

template <typename T, int N_ROWS, int THREADS, int TEAMS>
static void launch_teams(const struct vp_norm_grad *grad, cudaStream_t stream)
{
    dim3 block(threads_of<T>(grad->cols, 1), TEAMS);

    norm_grad_kernel<T, N_ROWS, THREADS, TEAMS>
        <<<(unsigned)vp_norm_parts(grad->rows), block, 0, stream>>>(
            *grad, (uint32_t)vp_norm_part_rows(grad->rows),
            1.0f / (float)grad->cols);
}

template <typename T>
static bool launch_norm_grad(const struct vp_norm_grad *grad,
                             cudaStream_t stream)
{
    unsigned threads = threads_of<T>(grad->cols, 1);

    if (!fits_registers<T>(grad->cols))
        return false;
    if (threads <= VP_TEAM)
        launch_teams<T, 2, VP_TEAM, VP_TEAMS>(grad, stream);
    else if (threads <= 2 * VP_TEAM)
        launch_teams<T, 2, 2 * VP_TEAM, 2>(grad, stream);
    else if (threads <= 4 * VP_TEAM)
        launch_teams<T, 2, 4 * VP_TEAM, 1>(grad, stream);
    else
        launch_teams<T, 1, WIDE, 1>(grad, stream);
    return true;
}

bool vp_cuda_norm_grad(const struct vp_norm_grad *grad, enum vp_dtype dtype,
                       cudaStream_t stream)
{
    VP_WITH_TYPE(dtype, return launch_norm_grad<T>(grad, stream));
}

bool vp_cuda_norm_sums_columns(int64_t cols, enum vp_dtype dtype)
{
    VP_WITH_TYPE(dtype, return fits_registers<T>(cols) &&
                               threads_of<T>(cols, 1) <= VP_TEAM);
}

/* For any number of columns: dx of one row per block. */
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

        if (grad.recomputed_out)
            ((T *)grad.recomputed_out)[row * cols + j] = vp_round<T>(fmaf(
                xhat, vp_float(gamma[j]), vp_float(((const T *)grad.beta)[j])));
        vp_put<1>(dx + j, grad.base != NULL, &d);
    }
}

/* For any number of columns: the sums of a part, one column per thread. */
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
    dim3 parts((unsigned)vp_norm_parts(grad->rows),
               (unsigned)vp_parts_of(grad->cols, PLAIN));

    if (grad->dx)
        plain_dx_kernel<T><<<(unsigned)grad->rows, PLAIN, 0, stream>>>(*grad);
    if (grad->parts)
        plain_parts_kernel<T>
            <<<parts, PLAIN, 0, stream>>>(*grad, vp_norm_part_rows(grad->rows));
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
        grad.n_sums = 2;
        return grad;
    }
    grad.dx = args->din[0];
    grad.recomputed_out = args->recomputed_out;
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

void vp_cuda_norm_finish(const struct vp_cuda_call *w, float *dbranch_sums)
{
    const struct vp_value *out = vp_call_value(w, w->args.op->out);
    struct vp_part_sums sums = {};

    sums.parts = (const float *)w->args.scratch;
    sums.dst[0] = (float *)w->args.dpar[0];
    sums.dst[1] = (float *)w->args.dpar[1];
    sums.dst[2] = dbranch_sums;
    sums.n_dst = dbranch_sums ? 3 : 2;
    sums.n_parts = vp_norm_parts(out->rows);
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
    vp_cuda_norm_finish(call, NULL);
    return VP_OK;
}
