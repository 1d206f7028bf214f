/* Kernels of add, scale, copy, dropout and gather: one pass over memory each.
 * All but gather work element by element, so inputs and outputs may be the same
 * memory. */
#include "backend/cuda/rows/rows.cuh"

enum { THREADS = 256 };

static int64_t count(const struct vp_cuda_call *call)
{
    const struct vp_value *out = vp_call_value(call, call->args.op->out);

    return out->rows * out->cols;
}

static enum vp_dtype dtype_of(const struct vp_cuda_call *call)
{
    return vp_call_value(call, call->args.op->out)->dtype;
}

/* Blocks for one thread per pack. The last thread does the remaining
 * elements. */
static unsigned blocks_of(int64_t n, int pack)
{
    return (unsigned)vp_parts_of(vp_parts_of(n, pack), THREADS);
}

static __device__ inline int64_t first_of_pack(int pack)
{
    return ((int64_t)blockIdx.x * THREADS + threadIdx.x) * pack;
}

/* ---- add ---------------------------------------------------------------- */

template <typename T, int N>
static __device__ inline void add_pack(T *out, const T *a, const T *b)
{
    float x[N], y[N];

    vp_load<N>(x, a);
    vp_load<N>(y, b);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] += y[i];
    vp_store<N>(out, x);
}

template <typename T>
static __global__ void add_kernel(T *out, const T *a, const T *b, int64_t n)
{
    enum { N = vp_vec<T>::N };
    int64_t i = first_of_pack(N);

    if (i + N <= n) {
        add_pack<T, N>(out + i, a + i, b + i);
        return;
    }
    for (; i < n; i++)
        add_pack<T, 1>(out + i, a + i, b + i);
}

template <typename T> static void launch_add(const struct vp_cuda_call *call)
{
    int64_t n = count(call);

    add_kernel<T><<<blocks_of(n, vp_vec<T>::N), THREADS, 0, call->stream>>>(
        (T *)call->args.out, (const T *)call->args.in[0],
        (const T *)call->args.in[1], n);
}

enum vp_status vp_cuda_add_f(const struct vp_cuda_call *call)
{
    VP_WITH_TYPE(dtype_of(call), launch_add<T>(call));
    return VP_OK;
}

/* ---- scale -------------------------------------------------------------- */

template <typename T, int N>
static __device__ inline void scale_pack(T *dst, const T *src, float scale,
                                         bool add)
{
    float x[N];

    vp_load<N>(x, src);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] *= scale;
    vp_put<N>(dst, add, x);
}

template <typename T>
static __global__ void scale_kernel(T *dst, const T *x, float scale, bool add,
                                    int64_t n)
{
    enum { N = vp_vec<T>::N };
    int64_t i = first_of_pack(N);

    if (i + N <= n) {
        scale_pack<T, N>(dst + i, x + i, scale, add);
        return;
    }
    for (; i < n; i++)
        scale_pack<T, 1>(dst + i, x + i, scale, add);
}

template <typename T>
static void launch_scale(const struct vp_cuda_call *call, void *dst, bool add,
                         const void *x, float scale)
{
    int64_t n = count(call);

    scale_kernel<T><<<blocks_of(n, vp_vec<T>::N), THREADS, 0, call->stream>>>(
        (T *)dst, (const T *)x, scale, add, n);
}

/* dst = scale * x, or dst += scale * x */
static void scale(const struct vp_cuda_call *call, void *dst, bool add,
                  const void *x, float by)
{
    VP_WITH_TYPE(dtype_of(call), launch_scale<T>(call, dst, add, x, by));
}

enum vp_status vp_cuda_scale_f(const struct vp_cuda_call *call)
{
    scale(call, call->args.out, false, call->args.in[0],
          call->args.op->attr.scale);
    return VP_OK;
}

enum vp_status vp_cuda_scale_b(const struct vp_cuda_call *call)
{
    if (call->args.din[0])
        scale(call, call->args.din[0], call->args.din_add[0], call->args.dout,
              call->args.op->attr.scale);
    return VP_OK;
}

/* ---- copy --------------------------------------------------------------- */

/* Copies bits in units of two bytes, whatever the type: a float could not
 * represent every int32. */
static __global__ void copy_kernel(uint16_t *dst, const uint16_t *src,
                                   int64_t n)
{
    int64_t i = first_of_pack(8);

    if (i + 8 <= n) {
        *(uint4 *)(dst + i) = *(const uint4 *)(src + i);
        return;
    }
    for (; i < n; i++)
        dst[i] = src[i];
}

static void copy(const struct vp_cuda_call *call, void *dst, const void *src)
{
    int64_t n = count(call) * vp_dtype_bytes(dtype_of(call)) / 2;

    copy_kernel<<<blocks_of(n, 8), THREADS, 0, call->stream>>>(
        (uint16_t *)dst, (const uint16_t *)src, n);
}

enum vp_status vp_cuda_copy_f(const struct vp_cuda_call *call)
{
    copy(call, call->args.out, call->args.in[0]);
    return VP_OK;
}

enum vp_status vp_cuda_copy_b(const struct vp_cuda_call *call)
{
    if (call->args.din[0] && call->args.din_add[0])
        scale(call, call->args.din[0], true, call->args.dout, 1.0f);
    else if (call->args.din[0])
        copy(call, call->args.din[0], call->args.dout);
    return VP_OK;
}

/* ---- dropout ------------------------------------------------------------ */

enum { GROUP = 16 }; /* columns whose random bytes come from one call */

/* Random bytes of GROUP columns from `col` on. SHIFTED: `col` need not be a
 * multiple of GROUP, as in a member's slice of columns. */
template <bool SHIFTED>
static __device__ inline vp_drop_words<GROUP> words_from(
    const struct vp_drop &drop, struct vp_drop_row at, uint32_t col)
{
    uint32_t first = SHIFTED ? col - col % GROUP : col;
    vp_drop_words<GROUP> words = vp_words_of<GROUP>(drop, at, first);
    vp_drop_words<GROUP> next, cut = {};

    if (!SHIFTED)
        return words;
    next = vp_words_of<GROUP>(drop, at, first + GROUP);
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
        uint32_t from = col % GROUP + i, word = 0;

#pragma unroll
        for (uint32_t k = 0; k < GROUP / 4; k++) {
            word = from / 4 == k ? words.word[k] : word;
            word = from / 4 == k + GROUP / 4 ? next.word[k] : word;
        }
        cut.word[i / 4] |= (word >> from % 4 * 8 & 0xFFu) << i % 4 * 8;
    }
    return cut;
}

/* One thread per group. The number of groups fits in 32 bits: 2^32 groups of
 * two-byte elements would be 128 GiB. */
template <typename T, int N, bool SHIFTED>
static __global__ void drop_kernel(T *dst, const T *src, bool add,
                                   struct vp_drop drop, uint32_t rows,
                                   uint32_t cols, uint32_t first_col)
{
    uint32_t groups = (cols + GROUP - 1) / GROUP;
    uint32_t thread = blockIdx.x * THREADS + threadIdx.x;
    uint32_t row = thread / groups, col = thread % groups * GROUP;
    int64_t at = (int64_t)row * cols + col;
    float x[GROUP];

    if (row >= rows)
        return;
#pragma unroll
    for (int k = 0; k < GROUP; k += N)
        if (col + k < cols)
            vp_load<N>(x + k, src + at + k);
    vp_drop_pack<GROUP>(
        x, drop,
        words_from<SHIFTED>(drop, vp_drop_row_of(drop, row), first_col + col));
#pragma unroll
    for (int k = 0; k < GROUP; k += N)
        if (col + k < cols)
            vp_put<N>(dst + at + k, add, x + k);
}

template <typename T, int N>
static void launch_drop_packs(const struct vp_cuda_call *call, T *dst, bool add,
                              const T *src)
{
    const struct vp_value *x = vp_call_value(call, call->args.op->out);
    int64_t n_threads = x->rows * vp_parts_of(x->cols, GROUP);
    unsigned blocks = (unsigned)vp_parts_of(n_threads, THREADS);
    struct vp_drop drop = vp_drop_of(call);
    uint32_t rows = (uint32_t)x->rows, cols = (uint32_t)x->cols;
    uint32_t first_col = (uint32_t)vp_arg_first_col(&call->args,
                                                    call->args.op->out);

    if (first_col % GROUP == 0)
        drop_kernel<T, N, false><<<blocks, THREADS, 0, call->stream>>>(
            dst, src, add, drop, rows, cols, first_col);
    else
        drop_kernel<T, N, true><<<blocks, THREADS, 0, call->stream>>>(
            dst, src, add, drop, rows, cols, first_col);
}

template <typename T>
static void launch_drop(const struct vp_cuda_call *call, void *dst, bool add,
                        const void *src)
{
    if (vp_fits_packs<T>(vp_call_value(call, call->args.op->out)->cols))
        launch_drop_packs<T, vp_vec<T>::N>(call, (T *)dst, add, (const T *)src);
    else
        launch_drop_packs<T, 1>(call, (T *)dst, add, (const T *)src);
}

enum vp_status vp_cuda_dropout_f(const struct vp_cuda_call *call)
{
    VP_WITH_TYPE(dtype_of(call),
                 launch_drop<T>(call, call->args.out, false, call->args.in[0]));
    return VP_OK;
}

enum vp_status vp_cuda_dropout_b(const struct vp_cuda_call *call)
{
    if (call->args.din[0])
        VP_WITH_TYPE(dtype_of(call),
                     launch_drop<T>(call, call->args.din[0],
                                    call->args.din_add[0], call->args.dout));
    return VP_OK;
}

/* ---- gather ------------------------------------------------------------- */

enum { PICK_THREADS = 128 };

/* A block works on one row of the list and PICK_THREADS packs of its
 * columns. */
static dim3 pick_grid(int64_t n, int64_t cols, int pack)
{
    return dim3((unsigned)n, (unsigned)vp_parts_of(cols, PICK_THREADS * pack));
}

static __device__ inline int64_t pick_col(int pack)
{
    return ((int64_t)blockIdx.y * PICK_THREADS + threadIdx.x) * pack;
}

template <typename T, int N>
static __global__ void gather_kernel(T *out, const T *x, const int32_t *pick,
                                     int64_t cols)
{
    int64_t row = pick[blockIdx.x], col = pick_col(N);
    float zeros[N] = { 0.0f };

    if (col >= cols)
        return;
    out += blockIdx.x * cols + col;
    if (row < 0)
        vp_store<N>(out, zeros);
    else
        *(vp_pack<T, N> *)out = vp_read<N>(x + row * cols + col);
}

/* Adds the rows of dout whose pick is `row` to `sum`, in order. The block's own
 * row is the first of them. */
template <typename T, int N>
static __device__ inline void add_picked(float *sum, const T *dout,
                                         const int32_t *pick, int32_t row,
                                         int n, int64_t cols)
{
    __shared__ bool same[PICK_THREADS];
    int64_t col = pick_col(N);
    float d[N];

    for (int begin = blockIdx.x; begin < n; begin += PICK_THREADS) {
        int i = begin + threadIdx.x;

        same[threadIdx.x] = i < n && pick[i] == row;
        if (!__syncthreads_or(same[threadIdx.x]))
            continue;
        for (int k = 0; k < PICK_THREADS && col < cols; k++) {
            if (!same[k])
                continue;
            vp_load<N>(d, dout + (begin + k) * cols + col);
            for (int j = 0; j < N; j++)
                sum[j] += d[j];
        }
        __syncthreads();
    }
}

/* Several entries of the list may pick the same row. The block of the first one
 * adds up their gradients; the others return. Usually there is only one, whose
 * gradient is copied. */
template <typename T, int N>
static __global__ void gather_grad_kernel(T *dx, bool add, const T *dout,
                                          const int32_t *pick, int n,
                                          int64_t cols)
{
    int self = (int)blockIdx.x;
    int32_t row = pick[self];
    int64_t col = pick_col(N);
    bool earlier = false, later = false;
    float sum[N] = { 0.0f };

    if (row < 0)
        return;
#pragma unroll 8
    for (int i = threadIdx.x; i < n; i += PICK_THREADS) {
        bool same = pick[i] == row;

        earlier |= same && i < self;
        later |= same && i > self;
    }
    if (__syncthreads_or(earlier))
        return;
    if (__syncthreads_or(later))
        add_picked<T, N>(sum, dout, pick, row, n, cols);
    else if (col < cols)
        vp_load<N>(sum, dout + self * cols + col);
    if (col < cols)
        vp_put<N>(dx + row * cols + col, add, sum);
}

template <typename T, int N>
static void launch_gather(const struct vp_cuda_call *call)
{
    const struct vp_value *out = vp_call_value(call, call->args.op->out);

    gather_kernel<T, N>
        <<<pick_grid(out->rows, out->cols, N), PICK_THREADS, 0, call->stream>>>(
            (T *)call->args.out, (const T *)call->args.in[0],
            (const int32_t *)call->args.in[1], out->cols);
}

template <typename T, int N>
static void launch_gather_grad(const struct vp_cuda_call *call)
{
    const struct vp_value *out = vp_call_value(call, call->args.op->out);

    gather_grad_kernel<T, N>
        <<<pick_grid(out->rows, out->cols, N), PICK_THREADS, 0, call->stream>>>(
            (T *)call->args.din[0], call->args.din_add[0],
            (const T *)call->args.dout, (const int32_t *)call->args.in[1],
            (int)out->rows, out->cols);
}

template <typename T> static void gather_rows(const struct vp_cuda_call *call)
{
    if (vp_fits_packs<T>(vp_call_value(call, call->args.op->out)->cols))
        launch_gather<T, vp_vec<T>::N>(call);
    else
        launch_gather<T, 1>(call);
}

template <typename T> static void scatter_rows(const struct vp_cuda_call *call)
{
    if (vp_fits_packs<T>(vp_call_value(call, call->args.op->out)->cols))
        launch_gather_grad<T, vp_vec<T>::N>(call);
    else
        launch_gather_grad<T, 1>(call);
}

enum vp_status vp_cuda_gather_f(const struct vp_cuda_call *call)
{
    VP_WITH_TYPE(dtype_of(call), gather_rows<T>(call));
    return VP_OK;
}

enum vp_status vp_cuda_gather_b(const struct vp_cuda_call *call)
{
    vp_val x = call->args.op->in[0];

    if (!call->args.din[0])
        return VP_OK;
    if (!call->args.din_add[0])
        cudaMemsetAsync(call->args.din[0], 0,
                        (size_t)vp_value_bytes(call->args.graph, x),
                        call->stream);
    VP_WITH_TYPE(dtype_of(call), scatter_rows<T>(call));
    return VP_OK;
}
