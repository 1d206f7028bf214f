/* Kernels of cross_entropy. The logits [n, V] are read once in F, and read and
 * written once in B, where dlogits may be the memory of logits. One block per
 * row.
 *
 * In a tensor-parallel group each member has a slice of the columns, and the
 * logits are never gathered. Members exchange four numbers per row and, in an
 * evaluation, the number of ids that rank before the label; each member adds
 * these in member order. */
#include "backend/cuda/rows/cross_entropy.h"

#include "backend/cuda/rows/rows.cuh"

#include <float.h>

enum {
    THREADS = 256,
    IN_FLIGHT = 4,      /* packs that a thread loads at a time in F */
    SUM_THREADS = 1024, /* threads of the one block that adds up the rows */
};

#define LOG2_E 1.44269504088896340736f

/* Arguments of both phases. */
struct loss {
    const void *logits;     /* [n, V] */
    const int32_t *labels;  /* [n] */
    const int32_t *weights; /* [n] or NULL */
    float smoothing;
    int64_t n, V;
    /* Ids of all members, the first id of this member's slice, and the number
     * of ids in it. The columns from n_own on stand for no id and are
     * ignored. */
    int64_t n_ids, first_id, n_own;
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
    loss.n_ids = call->args.op->attr.n_ids;
    loss.first_id = vp_arg_first_col(&call->args, call->args.op->in[0]);
    loss.n_own = vp_arg_n_ids(&call->args);
    return loss;
}

/* Weight of a row; 0 without a label. */
static __device__ inline int32_t row_weight(const struct loss &loss,
                                            int64_t row)
{
    if (loss.labels[row] < 0)
        return 0;
    return loss.weights ? loss.weights[row] : 1;
}

/* The label's logit, or 0 if it is in another member's slice. */
template <typename T>
static __device__ inline float label_logit(const struct loss &loss, const T *x,
                                           int64_t row)
{
    int64_t at = loss.labels[row] - loss.first_id;

    return at >= 0 && at < loss.n_own ? vp_float(x[at]) : 0.0f;
}

/* e^x for x <= 0 with an error of 2 ulp; tiny results become 0. */
static __device__ inline float exp_below(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * LOG2_E));
    return y;
}

/* How a row, which may start at any address, is cut: `head` single elements up
 * to the first boundary of 16 bytes, `n_packs` packs, single elements from
 * `tail` on. */
struct cut {
    int64_t head, n_packs, tail;
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

/* Running sums over elements of a row: `most` is the largest, the sum of e^x is
 * sum * e^most, and the sum of x is `total`. */
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

/* This thread's share of a row. */
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

/* Joins the tallies of all threads of the block. The result is valid in thread
 * 0. */
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

/* aux [n, 2]: log-sum-exp and loss; zeros in rows without weight. loss = (1-e)
 * * -log p_label + e * mean of -log p, with log p = x - lse. */
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
    tally = join_block(count_row(x, loss.n_own));
    if (threadIdx.x > 0)
        return;
    lse = tally.most + logf(tally.sum);
    mean = tally.total / (float)loss.n_ids;
    nll = lse - label_logit(loss, x, row);
    aux[row] = make_float2(lse, (1.0f - e) * nll + e * (lse - mean));
}

static __device__ inline double warp_sum(double x)
{
    for (int lane = 16; lane > 0; lane /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, lane);
    return x;
}

/* Sum over all threads of a block of SUM_THREADS; `shared` has one element per
 * warp. */
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

/* Number of this member's ids that rank before the label, whose logit is `own`:
 * those with a larger logit, or an equal one and a lower id. All threads of the
 * block must call it. */
template <typename T>
static __device__ inline int count_before(const struct loss &loss, const T *x,
                                          int64_t row, float own)
{
    int64_t at = loss.labels[row] - loss.first_id;
    int rank = 0;

    for (int64_t first = 0; first < loss.n_own; first += THREADS) {
        int64_t v = first + threadIdx.x;
        float other = v < loss.n_own ? vp_float(x[v]) : 0.0f;
        bool after = v >= loss.n_own || other < own ||
                     (other == own && v >= at);

        rank += __syncthreads_count(!after);
    }
    return rank;
}

/* Evaluation: aux[row].x = number of ids that rank before the label. One block
 * per row. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    label_rank_kernel(float2 *aux, struct loss loss)
{
    int64_t row = blockIdx.x;
    const T *x = (const T *)loss.logits + row * loss.V;
    int rank;

    if (row_weight(loss, row) == 0)
        return;
    rank = count_before(loss, x, row, label_logit(loss, x, row));
    if (threadIdx.x == 0)
        aux[row].x = (float)rank;
}

/* out [VP_LOSS_COLS]: the weighted mean of the rows' losses, 0 if no row has
 * weight, and sums of weights. `ranked`: aux has ranks; else the columns made
 * of ranks are 0. */
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

static void launch_mean_loss(const struct vp_cuda_call *call,
                             const struct loss *loss)
{
    mean_loss_kernel<<<1, SUM_THREADS, 0, call->stream>>>(
        (float *)call->args.out, (const float2 *)call->args.aux[0], *loss,
        !call->args.mb->train);
}

enum vp_status vp_cuda_cross_entropy_f(const struct vp_cuda_call *call)
{
    struct loss loss = loss_of(call);
    enum vp_dtype dtype = vp_call_value(call, call->args.op->in[0])->dtype;
    float2 *aux = (float2 *)call->args.aux[0];

    VP_WITH_TYPE(dtype, launch_row_loss<T>(aux, &loss, call->stream));
    if (!call->args.mb->train)
        VP_WITH_TYPE(dtype, launch_label_rank<T>(aux, &loss, call->stream));
    launch_mean_loss(call, &loss);
    return VP_OK;
}

/* ---- In a group --------------------------------------------------------- */

/* Data that members exchange, in the scratch of the call. `mine_before` and
 * `all_before` are the numbers of ids before the label. */
struct shared_rows {
    struct vp_row_part *mine; /* [n] */
    struct vp_row_part *all;  /* [members, n] */
    int32_t *mine_before, *all_before;
    int n_members;
};

static struct shared_rows shared_rows_of(const struct vp_cuda_call *call)
{
    struct vp_loss_scratch areas = vp_cuda_loss_areas(call->args.graph,
                                                      call->args.op);
    char *base = (char *)call->args.scratch;
    struct shared_rows shared;

    shared.mine = (struct vp_row_part *)base;
    shared.all = (struct vp_row_part *)(base + areas.mine);
    base += areas.mine + areas.all;
    shared.mine_before = (int32_t *)base;
    shared.all_before = (int32_t *)(base + areas.mine_before);
    shared.n_members = call->args.members->n;
    return shared;
}

/* This member's part of each row; zeros for rows without weight. One block per
 * row. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    row_part_kernel(struct vp_row_part *parts, struct loss loss)
{
    int64_t row = blockIdx.x;
    const T *x = (const T *)loss.logits + row * loss.V;
    struct tally tally;

    if (row_weight(loss, row) == 0) {
        if (threadIdx.x == 0)
            parts[row] = { 0.0f, 0.0f, 0.0f, 0.0f };
        return;
    }
    tally = join_block(count_row(x, loss.n_own));
    if (threadIdx.x == 0)
        parts[row] = { tally.most, tally.sum, tally.total,
                       label_logit(loss, x, row) };
}

/* The label's logit. One member has it, the others have 0. */
static __device__ inline float shared_label(const struct shared_rows &shared,
                                            int64_t row, int64_t n)
{
    float label = 0.0f;

    for (int k = 0; k < shared.n_members; k++)
        label += shared.all[k * n + row].label;
    return label;
}

/* Computes aux from the parts of all members, as row_loss_kernel() does from a
 * whole row. One thread per row. */
static __global__ void __launch_bounds__(THREADS)
    join_rows_kernel(float2 *aux, struct shared_rows shared, struct loss loss)
{
    int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    float most = -FLT_MAX, e = loss.smoothing, lse, mean;
    double exps = 0.0, sum = 0.0;

    if (row >= loss.n)
        return;
    if (row_weight(loss, row) == 0) {
        aux[row] = make_float2(0.0f, 0.0f);
        return;
    }
    for (int k = 0; k < shared.n_members; k++)
        most = fmaxf(most, shared.all[k * loss.n + row].most);
    for (int k = 0; k < shared.n_members; k++) {
        struct vp_row_part part = shared.all[k * loss.n + row];

        if (part.exps != 0.0f) /* 0: the member's slice has no ids */
            exps += (double)part.exps * exp((double)(part.most - most));
        sum += (double)part.sum;
    }
    lse = most + (float)log(exps);
    mean = (float)(sum / (double)loss.n_ids);
    aux[row] = make_float2(
        lse, (1.0f - e) * (lse - shared_label(shared, row, loss.n)) +
                 e * (lse - mean));
}

/* Number of this member's ids that rank before the label. One block per row. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    part_before_kernel(struct shared_rows shared, struct loss loss)
{
    int64_t row = blockIdx.x;
    const T *x = (const T *)loss.logits + row * loss.V;
    int before = 0;

    if (row_weight(loss, row) != 0)
        before = count_before(loss, x, row, shared_label(shared, row, loss.n));
    if (threadIdx.x == 0)
        shared.mine_before[row] = before;
}

/* aux[row].x, as label_rank_kernel() writes it, from the numbers of all
 * members. One thread per row. */
static __global__ void __launch_bounds__(THREADS)
    join_before_kernel(float2 *aux, struct shared_rows shared, struct loss loss)
{
    int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t rank = 0;

    if (row >= loss.n || row_weight(loss, row) == 0)
        return;
    for (int k = 0; k < shared.n_members; k++)
        rank += shared.all_before[k * loss.n + row];
    aux[row].x = (float)rank;
}

template <typename T>
static void launch_row_part(const struct vp_cuda_call *call,
                            const struct loss *loss)
{
    row_part_kernel<T><<<(unsigned)loss->n, THREADS, 0, call->stream>>>(
        shared_rows_of(call).mine, *loss);
}

template <typename T>
static void launch_part_before(const struct vp_cuda_call *call,
                               const struct loss *loss)
{
    part_before_kernel<T><<<(unsigned)loss->n, THREADS, 0, call->stream>>>(
        shared_rows_of(call), *loss);
}

void vp_cuda_loss_begin(const struct vp_cuda_call *call)
{
    struct loss loss = loss_of(call);

    VP_WITH_TYPE(vp_call_value(call, call->args.op->in[0])->dtype,
                 launch_row_part<T>(call, &loss));
}

void vp_cuda_loss_join(const struct vp_cuda_call *call)
{
    struct loss loss = loss_of(call);
    unsigned blocks = (unsigned)vp_parts_of(loss.n, THREADS);

    join_rows_kernel<<<blocks, THREADS, 0, call->stream>>>(
        (float2 *)call->args.aux[0], shared_rows_of(call), loss);
    if (call->args.mb->train)
        launch_mean_loss(call, &loss);
    else
        VP_WITH_TYPE(vp_call_value(call, call->args.op->in[0])->dtype,
                     launch_part_before<T>(call, &loss));
}

void vp_cuda_loss_end(const struct vp_cuda_call *call)
{
    struct loss loss = loss_of(call);
    unsigned blocks = (unsigned)vp_parts_of(loss.n, THREADS);

    join_before_kernel<<<blocks, THREADS, 0, call->stream>>>(
        (float2 *)call->args.aux[0], shared_rows_of(call), loss);
    launch_mean_loss(call, &loss);
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

/* x and dx are cut in the same way: both are aligned and have the same
 * shape. */
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

/* Writes zeros to the columns that stand for no id. */
template <typename T>
static __device__ inline void clear_rest(T *dx, const struct loss &loss)
{
    const float zero[1] = { 0.0f };

    for (int64_t v = loss.n_own + threadIdx.x; v < loss.V; v += THREADS)
        vp_store<1>(dx + v, zero);
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
    row.of_all = loss.smoothing / (float)loss.n_ids;
    row.label = loss.labels[at] - loss.first_id;
    row.add = add;
    write_row(dx, (const T *)loss.logits + at * loss.V, loss.n_own, row);
    if (!add)
        clear_rest(dx, loss);
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
