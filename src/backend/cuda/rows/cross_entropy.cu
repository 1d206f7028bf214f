/* cross_entropy: logits [n, V] are read once in F, and read and written once
 * in B, where dlogits may be the memory of logits. One block per row. */
#include "backend/cuda/rows/rows.cuh"

#include <float.h>

enum {
    THREADS = 256,
    IN_FLIGHT = 4,      /* packs of a thread in F */
    SUM_THREADS = 1024, /* of the one block that adds the rows up */
};

#define LOG2_E 1.44269504088896340736f

/* What both phases know about the operator. */
struct loss {
    const void *logits;     /* [n, V] */
    const int32_t *labels;  /* [n] */
    const int32_t *weights; /* [n] or NULL */
    float smoothing;
    int64_t n, V;
};

static struct loss loss_of(const struct vp_cuda_call *call)
{
    const struct vp_value *in = vp_call_value(call, call->args.op->in[0]);
    struct loss loss;

    loss.logits = call->args.in[0];
    loss.labels = (const int32_t *)call->args.in[1];
    loss.weights = (const int32_t *)call->args.in[2];
    loss.smoothing = call->args.op->attr.smoothing;
    loss.n = in->rows;
    loss.V = in->cols;
    return loss;
}

/* 0 for a row without a label. */
static __device__ inline int32_t row_weight(const struct loss &loss,
                                            int64_t row)
{
    if (loss.labels[row] < 0)
        return 0;
    return loss.weights ? loss.weights[row] : 1;
}

/* e^x to 2 units in the last place, for x <= 0; what is tiny becomes 0. */
static __device__ inline float exp_below(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * LOG2_E));
    return y;
}

/* A row of V elements starts anywhere: single elements up to the first
 * boundary of 16 bytes, packs, single elements. */
struct cut {
    int64_t head, n_packs, tail; /* tail: where the last elements begin */
};

template <typename T>
static __device__ inline struct cut cut_row(const T *row, int64_t V)
{
    int64_t past = (int64_t)((uintptr_t)row % 16 / sizeof(T));
    struct cut cut;

    cut.head = (vp_vec<T>::N - past) % vp_vec<T>::N;
    if (cut.head > V)
        cut.head = V;
    cut.n_packs = (V - cut.head) / vp_vec<T>::N;
    cut.tail = cut.head + cut.n_packs * vp_vec<T>::N;
    return cut;
}

/* ---- Forward ------------------------------------------------------------ */

/* Of some elements of a row: the sum of e^x is `sum` e^most. */
struct tally {
    float most, sum, total;
};

template <typename T, int N>
static __device__ inline void count_pack(struct tally *tally,
                                         const vp_pack<T, N> &pack)
{
    float most = tally->most;

#pragma unroll
    for (int i = 0; i < N; i++)
        most = fmaxf(most, vp_get(pack, i));
    tally->sum *= exp_below(tally->most - most);
    tally->most = most;
#pragma unroll
    for (int i = 0; i < N; i++) {
        tally->sum += exp_below(vp_get(pack, i) - most);
        tally->total += vp_get(pack, i);
    }
}

static __device__ inline void join(struct tally *a, const struct tally &b)
{
    float most = fmaxf(a->most, b.most);

    a->sum = a->sum * exp_below(a->most - most) +
             b.sum * exp_below(b.most - most);
    a->total += b.total;
    a->most = most;
}

/* The thread's share of a row. */
template <typename T>
static __device__ inline struct tally count_row(const T *x, int64_t V)
{
    enum { N = vp_vec<T>::N };
    struct tally tally = { -FLT_MAX, 0.0f, 0.0f };
    struct cut cut = cut_row(x, V);
    vp_pack<T, N> packs[IN_FLIGHT];

    for (int64_t at = threadIdx.x; at < cut.n_packs;
         at += IN_FLIGHT * THREADS) {
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (at + k * THREADS < cut.n_packs)
                packs[k] = vp_read<N>(x + cut.head + (at + k * THREADS) * N);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            if (at + k * THREADS < cut.n_packs)
                count_pack<T, N>(&tally, packs[k]);
    }
    if (threadIdx.x < cut.head)
        count_pack<T, 1>(&tally, vp_read<1>(x + threadIdx.x));
    if (cut.tail + threadIdx.x < V)
        count_pack<T, 1>(&tally, vp_read<1>(x + cut.tail + threadIdx.x));
    return tally;
}

/* Of the whole block; valid in thread 0. */
static __device__ inline struct tally join_block(struct tally tally)
{
    __shared__ struct tally warps[THREADS / 32];

    for (int lane = 16; lane > 0; lane /= 2) {
        struct tally other;

        other.most = __shfl_xor_sync(0xFFFFFFFFu, tally.most, lane);
        other.sum = __shfl_xor_sync(0xFFFFFFFFu, tally.sum, lane);
        other.total = __shfl_xor_sync(0xFFFFFFFFu, tally.total, lane);
        join(&tally, other);
    }
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = tally;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 1; i < THREADS / 32; i++)
            join(&tally, warps[i]);
    return tally;
}

/* aux [n, 2]: log-sum-exp and loss; zeros in rows that do not count.
 * loss = (1-e) * -log p_label + e * mean of -log p, log p = x - lse. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    row_loss_kernel(float2 *aux, struct loss loss)
{
    int64_t row = blockIdx.x;
    const T *x = (const T *)loss.logits + row * loss.V;
    float e = loss.smoothing, lse, mean, nll;
    struct tally tally;

    if (row_weight(loss, row) == 0) {
        if (threadIdx.x == 0)
            aux[row] = make_float2(0.0f, 0.0f);
        return;
    }
    tally = join_block(count_row(x, loss.V));
    if (threadIdx.x > 0)
        return;
    lse = tally.most + logf(tally.sum);
    mean = tally.total / (float)loss.V;
    nll = lse - vp_float(x[loss.labels[row]]);
    aux[row] = make_float2(lse, (1.0f - e) * nll + e * (lse - mean));
}

static __device__ inline double warp_sum(double x)
{
    for (int lane = 16; lane > 0; lane /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, lane);
    return x;
}

/* Of all threads of a block of SUM_THREADS; `shared` has a place per warp. */
static __device__ inline double block_sum(double x, double *shared)
{
    double sum = 0.0;

    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    for (int i = 0; i < SUM_THREADS / 32; i++)
        sum += shared[i];
    return sum;
}

/* Evaluation: aux[row].x = ids that come before the label in the order of
 * logits. One block per row. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    label_rank_kernel(float2 *aux, struct loss loss)
{
    int64_t row = blockIdx.x, label = loss.labels[row];
    const T *x = (const T *)loss.logits + row * loss.V;
    int rank = 0;
    float own;

    if (row_weight(loss, row) == 0)
        return;
    own = vp_float(x[label]);
    for (int64_t first = 0; first < loss.V; first += THREADS) {
        int64_t v = first + threadIdx.x;
        float other = v < loss.V ? vp_float(x[v]) : 0.0f;
        bool after = v >= loss.V || other < own || (other == own && v >= label);

        rank += __syncthreads_count(!after);
    }
    if (threadIdx.x == 0)
        aux[row].x = (float)rank;
}

/* out [VP_LOSS_COLS]: the weighted mean of the rows' losses, 0 if no row counts;
 * and sums of weights. `ranked`: aux has ranks; else those columns are 0. */
static __global__ void __launch_bounds__(SUM_THREADS)
    mean_loss_kernel(float *out, const float2 *aux, struct loss loss,
                     bool ranked)
{
    __shared__ double shared[VP_LOSS_COLS][SUM_THREADS / 32];
    double sums[VP_LOSS_COLS] = { 0.0, 0.0, 0.0, 0.0 };

    for (int64_t row = threadIdx.x; row < loss.n; row += SUM_THREADS) {
        double w = row_weight(loss, row);

        sums[VP_LOSS_MEAN] += w * (double)aux[row].y;
        sums[VP_LOSS_WEIGHT] += w;
        sums[VP_LOSS_TOP1] += aux[row].x < 1.0f ? w : 0.0;
        sums[VP_LOSS_TOP5] += aux[row].x < 5.0f ? w : 0.0;
    }
    for (int i = 0; i < VP_LOSS_COLS; i++)
        sums[i] = i < VP_LOSS_TOP1 || ranked ? block_sum(sums[i], shared[i])
                                             : 0.0;
    if (threadIdx.x > 0)
        return;
    out[VP_LOSS_MEAN] = sums[VP_LOSS_WEIGHT] > 0.0
                            ? (float)(sums[VP_LOSS_MEAN] / sums[VP_LOSS_WEIGHT])
                            : 0.0f;
    for (int i = VP_LOSS_WEIGHT; i < VP_LOSS_COLS; i++)
        out[i] = (float)sums[i];
}

template <typename T>
static void launch_row_loss(float2 *aux, const struct loss *loss,
                            cudaStream_t stream)
{
    row_loss_kernel<T><<<(unsigned)loss->n, THREADS, 0, stream>>>(aux, *loss);
}

template <typename T>
static void launch_label_rank(float2 *aux, const struct loss *loss,
                              cudaStream_t stream)
{
    label_rank_kernel<T><<<(unsigned)loss->n, THREADS, 0, stream>>>(aux, *loss);
}

enum vp_status vp_cuda_cross_entropy_f(const struct vp_cuda_call *call)
{
    struct loss loss = loss_of(call);
    enum vp_dtype dtype = vp_call_value(call, call->args.op->in[0])->dtype;
    float2 *aux = (float2 *)call->args.aux[0];
    bool ranked = !call->args.mb->train;

    VP_WITH_TYPE(dtype, launch_row_loss<T>(aux, &loss, call->stream));
    if (ranked)
        VP_WITH_TYPE(dtype, launch_label_rank<T>(aux, &loss, call->stream));
    mean_loss_kernel<<<1, SUM_THREADS, 0, call->stream>>>(
        (float *)call->args.out, aux, loss, ranked);
    return VP_OK;
}

/* ---- Backward ----------------------------------------------------------- */

static __global__ void __launch_bounds__(SUM_THREADS)
    total_weight_kernel(double *total, struct loss loss)
{
    __shared__ double shared[SUM_THREADS / 32];
    double weights = 0.0;

    for (int64_t row = threadIdx.x; row < loss.n; row += SUM_THREADS)
        weights += row_weight(loss, row);
    weights = block_sum(weights, shared);
    if (threadIdx.x == 0)
        *total = weights;
}

/* A row's gradient: dx_v = g * (p_v - (1-e) * [v is the label] - e / V). */
struct row_grad {
    float lse, g, of_label, of_all;
    int64_t label;
    bool add;
};

template <typename T, int N>
static __device__ inline void grad_pack(T *dx, const T *x, int64_t v,
                                        const struct row_grad &row)
{
    float d[N];

    vp_load<N>(d, x + v);
#pragma unroll
    for (int i = 0; i < N; i++)
        d[i] = exp_below(d[i] - row.lse) - row.of_all;
    if (row.label >= v && row.label < v + N) {
#pragma unroll
        for (int i = 0; i < N; i++)
            d[i] -= v + i == row.label ? row.of_label : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        d[i] *= row.g;
    vp_put<N>(dx + v, row.add, d);
}

/* x and dx are cut alike: rows of two tensors of one shape, both aligned. */
template <typename T>
static __device__ inline void write_row(T *dx, const T *x, int64_t V,
                                        const struct row_grad &row)
{
    enum { N = vp_vec<T>::N };
    struct cut cut = cut_row(x, V);

    for (int64_t at = threadIdx.x; at < cut.n_packs; at += THREADS)
        grad_pack<T, N>(dx, x, cut.head + at * N, row);
    if (threadIdx.x < cut.head)
        grad_pack<T, 1>(dx, x, threadIdx.x, row);
    if (cut.tail + threadIdx.x < V)
        grad_pack<T, 1>(dx, x, cut.tail + threadIdx.x, row);
}

template <typename T> static __device__ inline void clear_row(T *dx, int64_t V)
{
    enum { N = vp_vec<T>::N };
    struct cut cut = cut_row(dx, V);
    const float zeros[N] = { 0.0f };

    for (int64_t at = threadIdx.x; at < cut.n_packs; at += THREADS)
        vp_store<N>(dx + cut.head + at * N, zeros);
    if (threadIdx.x < cut.head)
        vp_store<1>(dx + threadIdx.x, zeros);
    if (cut.tail + threadIdx.x < V)
        vp_store<1>(dx + cut.tail + threadIdx.x, zeros);
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    row_grad_kernel(T *dlogits, bool add, const float2 *aux,
                    const double *total, const struct vp_cuda_mb *mb,
                    struct loss loss)
{
    int64_t at = blockIdx.x;
    int32_t w = row_weight(loss, at);
    T *dx = dlogits + at * loss.V;
    struct row_grad row;

    if (w == 0) {
        if (!add)
            clear_row(dx, loss.V);
        return;
    }
    row.lse = aux[at].x;
    row.g = (float)((double)mb->loss_grad * w / *total);
    row.of_label = 1.0f - loss.smoothing;
    row.of_all = loss.smoothing / (float)loss.V;
    row.label = loss.labels[at];
    row.add = add;
    write_row(dx, (const T *)loss.logits + at * loss.V, loss.V, row);
}

template <typename T>
static void launch_row_grad(const struct vp_cuda_call *call,
                            const struct loss *loss, const double *total)
{
    row_grad_kernel<T><<<(unsigned)loss->n, THREADS, 0, call->stream>>>(
        (T *)call->args.din[0], call->args.din_add[0],
        (const float2 *)call->args.aux[0], total, call->mb, *loss);
}

enum vp_status vp_cuda_cross_entropy_b(const struct vp_cuda_call *call)
{
    struct loss loss = loss_of(call);
    double *total = (double *)call->args.scratch;

    if (!call->args.din[0])
        return VP_OK;
    total_weight_kernel<<<1, SUM_THREADS, 0, call->stream>>>(total, loss);
    VP_WITH_TYPE(vp_call_value(call, call->args.op->in[0])->dtype,
                 launch_row_grad<T>(call, &loss, total));
    return VP_OK;
}
