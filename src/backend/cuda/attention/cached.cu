/* Attention of new positions over a key-value cache, [n_lines, heads, 2, T,
 * dim]: the keys, then the values of each head of a line.
 *
 * One block per query and head. Its scores are in shared memory. How sums over
 * positions are split depends only on the number of the position, so the bits
 * of a row depend neither on the other rows or their number, nor on the
 * lines. */
#include "backend/cuda/rows/rows.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };

struct cached {
    const int32_t *at, *lines; /* [rows], [batch, T] */
    int64_t q_len, T, H;
    int heads, dim;
    float scale;
};

static struct cached cached_of(const struct vp_cuda_call *call)
{
    const struct vp_op *op = call->args.op;
    struct cached x;

    x.at = (const int32_t *)call->args.in[1];
    x.lines = (const int32_t *)call->args.in[2];
    x.q_len = op->attr.q_len;
    x.T = op->attr.k_len;
    x.H = vp_call_value(call, op->out)->cols;
    x.heads = op->attr.heads;
    x.dim = (int)(x.H / x.heads);
    x.scale = op->attr.scale;
    return x;
}

/* Element at which the key of position `p` begins; its value is T * dim
 * further. */
static __device__ inline int64_t key_at(const struct cached &x,
                                        const int32_t *lines, int head,
                                        int64_t p)
{
    return ((lines[p] * (int64_t)x.heads + head) * 2 * x.T + p) * x.dim;
}

/* Writes key and value of one head of a row to the cache. */
template <typename T, int N>
static __device__ inline void write_row(T *cache, const T *qkv,
                                        const struct cached &x,
                                        const int32_t *lines, int head,
                                        int64_t p)
{
    T *to = cache + key_at(x, lines, head, p);
    int n = x.dim / N;

    for (int i = threadIdx.x; i < 2 * n; i += THREADS) {
        int part = i / n, col = i % n * N;

        vp_write(to + part * x.T * x.dim + col,
                 vp_read<N>(qkv + (part + 1) * x.H + head * x.dim + col));
    }
}

/* One block per row, for all of its heads. */
template <typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    write_kernel(T *cache, const T *qkv, struct cached x)
{
    int64_t row = blockIdx.x;
    int32_t p = x.at[row];

    for (int head = 0; p >= 0 && head < x.heads; head++)
        write_row<T, N>(cache, qkv + row * 3 * x.H, x,
                        x.lines + row / x.q_len * x.T, head, p);
}

/* Number of lanes that share a key: a power of two. */
static __device__ inline int lanes_of_key(int n_packs)
{
    int n = 1;

    while (n < n_packs && n < 32)
        n *= 2;
    return n;
}

/* scores [n] = scale * q k^T, each computed by a group of lanes. */
template <typename T, int N>
static __device__ inline void set_scores(float *scores, const float *q,
                                         const T *cache, const struct cached &x,
                                         const int32_t *lines, int head,
                                         int64_t n)
{
    int n_packs = x.dim / N, lanes = lanes_of_key(n_packs);
    int lane = threadIdx.x % lanes, step = THREADS / lanes;

#pragma unroll 4
    for (int64_t first = 0; first < n; first += step) {
        int64_t p = first + threadIdx.x / lanes;
        float sum = 0.0f;

        if (p < n) {
            const T *key = cache + key_at(x, lines, head, p);

            for (int i = lane; i < n_packs; i += lanes) {
                float k[N];

                vp_load<N>(k, key + i * N);
#pragma unroll
                for (int j = 0; j < N; j++)
                    sum = fmaf(q[i * N + j], k[j], sum);
            }
        }
        for (int other = lanes / 2; other > 0; other /= 2)
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, other);
        if (p < n && lane == 0)
            scores[p] = sum * x.scale;
    }
}

/* scores = exp(scores - the largest). Returns their sum. */
static __device__ inline float exponentials(float *scores, int64_t n,
                                            float *shared)
{
    float most = -INFINITY, sum = 0.0f;

    for (int64_t p = threadIdx.x; p < n; p += THREADS)
        most = fmaxf(most, scores[p]);
    most = vp_warp_max(most);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        most = fmaxf(most, shared[i]);
    __syncthreads();
    for (int64_t p = threadIdx.x; p < n; p += THREADS) {
        scores[p] = expf(scores[p] - most);
        sum += scores[p];
    }
    sum = vp_block_sum(sum, shared); /* its barrier makes scores visible */
    return sum;
}

/* out [dim] = scores v / sum. Threads divide columns and positions among them;
 * `parts` has one row of columns for each share of the positions. */
template <typename T, int N>
static __device__ inline void weigh_values(T *out, const float *scores,
                                           float sum, const T *cache,
                                           const struct cached &x,
                                           const int32_t *lines, int head,
                                           int64_t n, float *parts)
{
    int n_packs = x.dim / N, n_shares = THREADS / n_packs;
    int share = threadIdx.x / n_packs, col = threadIdx.x % n_packs * N;
    float part[N] = { 0.0f };

    if (share < n_shares) {
#pragma unroll 4
        for (int64_t p = share; p < n; p += n_shares) {
            float v[N];

            vp_load<N>(v,
                       cache + key_at(x, lines, head, p) + x.T * x.dim + col);
#pragma unroll
            for (int j = 0; j < N; j++)
                part[j] = fmaf(scores[p], v[j], part[j]);
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            parts[share * x.dim + col + j] = part[j];
    }
    __syncthreads();
    for (int c = threadIdx.x; c < x.dim; c += THREADS) {
        float total = 0.0f;

        for (int i = 0; i < n_shares; i++)
            total += parts[i * x.dim + c];
        out[c] = vp_round<T>(total / sum);
    }
}

/* Shared memory: 32 floats for sums, q [dim], parts [THREADS * N], scores
 * [T]. */
template <typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    attend_kernel(T *out, T *cache, const T *qkv, struct cached x, bool writes)
{
    extern __shared__ float shared[];
    float *q = shared + 32, *parts = q + x.dim, *scores = parts + THREADS * N;
    int head = (int)blockIdx.x;
    int64_t row = blockIdx.y;
    const int32_t *lines = x.lines + row / x.q_len * x.T;
    int32_t p = x.at[row];

    out += row * x.H + head * x.dim;
    qkv += row * 3 * x.H;
    if (p < 0) {
        for (int c = threadIdx.x; c < x.dim; c += THREADS)
            out[c] = vp_round<T>(0.0f);
        return;
    }
    if (writes)
        write_row<T, N>(cache, qkv, x, lines, head, p);
    for (int c = threadIdx.x; c < x.dim; c += THREADS)
        q[c] = vp_float(qkv[head * x.dim + c]);
    __syncthreads();
    set_scores<T, N>(scores, q, cache, x, lines, head, p + 1);
    __syncthreads();
    weigh_values<T, N>(out, scores, exponentials(scores, p + 1, shared), cache,
                       x, lines, head, p + 1, parts);
}

template <typename T, int N>
static void launch(const struct vp_cuda_call *call, const struct cached *x)
{
    const struct vp_attr *attr = &call->args.op->attr;
    int64_t rows = attr->batch * attr->q_len;
    dim3 grid((unsigned)x->heads, (unsigned)rows);
    size_t n_shared = (size_t)(32 + x->dim + THREADS * N + x->T) *
                      sizeof(float);
    const T *qkv = (const T *)call->args.in[0];
    T *cache = (T *)call->args.aux[0];

    if (n_shared > 48 * 1024)
        cudaFuncSetAttribute(attend_kernel<T, N>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)n_shared);
    /* With several rows per sample, a row reads keys and values of other rows,
     * which a first kernel must have written. With one row, the block that
     * reads a head writes it. */
    if (x->q_len > 1)
        write_kernel<T, N>
            <<<(unsigned)rows, THREADS, 0, call->stream>>>(cache, qkv, *x);
    attend_kernel<T, N><<<grid, THREADS, n_shared, call->stream>>>(
        (T *)call->args.out, cache, qkv, *x, x->q_len == 1);
}

template <typename T> static void run(const struct vp_cuda_call *call)
{
    struct cached x = cached_of(call);

    if (vp_fits_packs<T>(x.dim))
        launch<T, vp_vec<T>::N>(call, &x);
    else
        launch<T, 1>(call, &x);
}

enum vp_status vp_cuda_cached_attention_f(const struct vp_cuda_call *call)
{
    const struct vp_value *out = vp_call_value(call, call->args.op->out);

    if (out->cols / call->args.op->attr.heads > THREADS)
        return VP_ERR_UNSUPPORTED;
    VP_WITH_TYPE(out->dtype, run<T>(call));
    return VP_OK;
}
