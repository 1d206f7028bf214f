/* Optimizer kernels: norms, SGD, Adam and LAMB for all tensors of a stage in
 * one launch, one block of threads per chunk of a tensor. Results have the same
 * bits as those of the CPU backend. Sums are added in a fixed order: a thread's
 * elements, then the threads of a chunk, then the chunks of a tensor. All
 * kernels here are limited by memory bandwidth. */
#include "backend/cuda/optim/quad.cuh"
#include "base/halves.h"
#include "optim/kernel.h"

#include <stdlib.h>
#include <type_traits>

enum {
    THREADS = 256,
    /* Four rounds of THREADS quads: enough to pay for a sum over the block,
     * small enough that the last blocks end close together. */
    CHUNK = 16 * THREADS,
    /* Blocks per processor: with more of them, a thread has too few
     * registers. */
    BLOCKS = 4,
    /* Grid limit of loops over one long array: several blocks per processor. */
    MAX_BLOCKS = 2048,
};

/* Elements [begin, begin + n) of the weights, which belong to tensor number
 * `tensor`. Their gradients start at element `grad`. */
struct chunk {
    int64_t begin, grad;
    int n;
    int tensor;
    int decay;
};

/* Two sums over the elements of a chunk. */
struct sums {
    double x[2];
};

/* Coefficients of the step for tensors with and without weight decay. */
struct coefs {
    struct vp_optim_coef with_decay, without;
};

/* Device memory, one allocation that starts at `chunks`. Calls for the same
 * tensors share it, so they must follow each other in one stream. */
struct cut {
    struct chunk *chunks;
    struct sums *sums;   /* partial sums of each chunk */
    struct coefs *coefs; /* coefficients of the current step */
    int *first;   /* first chunk of each tensor; [n_tensors]: all chunks */
    float *rates; /* LAMB: lr times the trust ratio of each tensor */
};

struct vp_cuda_tensors {
    int n_tensors;
    int *first; /* host copy of cut.first */
    struct cut cut;
};

/* ---- Tensors into chunks ------------------------------------------------ */

static int chunks_of(const struct vp_optim_tensor *tensor)
{
    return (int)((tensor->n + CHUNK - 1) / CHUNK);
}

static void cut_tensors(const struct vp_optim_tensor *tensors, int n_tensors,
                        struct chunk *chunks, int *first)
{
    int n_chunks = 0;

    for (int i = 0; i < n_tensors; i++) {
        first[i] = n_chunks;
        for (int64_t at = 0; at < tensors[i].n; at += CHUNK) {
            int64_t left = tensors[i].n - at;
            struct chunk *chunk = &chunks[n_chunks++];

            chunk->begin = tensors[i].offset + at;
            chunk->grad = tensors[i].grad + at;
            chunk->n = left < CHUNK ? (int)left : (int)CHUNK;
            chunk->tensor = i;
            chunk->decay = tensors[i].decay;
        }
    }
    first[n_tensors] = n_chunks;
}

static enum vp_status alloc_cut(struct vp_cuda_tensors *t, size_t n_chunks)
{
    size_t n_tensors = (size_t)t->n_tensors;
    size_t n_bytes = n_chunks * (sizeof(struct chunk) + sizeof(struct sums)) +
                     sizeof(struct coefs) + (n_tensors + 1) * sizeof(int) +
                     n_tensors * sizeof(float);
    void *memory;

    if (cudaMalloc(&memory, n_bytes) != cudaSuccess)
        return VP_ERR_NOMEM;
    t->cut.chunks = (struct chunk *)memory;
    t->cut.sums = (struct sums *)(t->cut.chunks + n_chunks);
    t->cut.coefs = (struct coefs *)(t->cut.sums + n_chunks);
    t->cut.first = (int *)(t->cut.coefs + 1);
    t->cut.rates = (float *)(t->cut.first + n_tensors + 1);
    return VP_OK;
}

static enum vp_status upload_cut(struct vp_cuda_tensors *t,
                                 const struct vp_optim_tensor *tensors,
                                 size_t n_chunks)
{
    size_t chunk_bytes = n_chunks * sizeof(struct chunk);
    size_t first_bytes = (size_t)(t->n_tensors + 1) * sizeof(int);
    struct chunk *chunks = (struct chunk *)malloc(chunk_bytes + 1);
    enum vp_status st = VP_OK;

    if (!chunks)
        return VP_ERR_NOMEM;
    cut_tensors(tensors, t->n_tensors, chunks, t->first);
    if (cudaMemcpy(t->cut.chunks, chunks, chunk_bytes,
                   cudaMemcpyHostToDevice) != cudaSuccess ||
        cudaMemcpy(t->cut.first, t->first, first_bytes,
                   cudaMemcpyHostToDevice) != cudaSuccess ||
        /* cudaMemcpy() may return before the copy has ended, and the streams of
         * stages do not wait for the legacy stream. */
        cudaStreamSynchronize(cudaStreamLegacy) != cudaSuccess)
        st = VP_ERR_IO;
    free(chunks);
    return st;
}

enum vp_status vp_cuda_tensors_create(const struct vp_optim_tensor *tensors,
                                      int n_tensors,
                                      struct vp_cuda_tensors **out)
{
    struct vp_cuda_tensors *t;
    size_t n_chunks = 0;
    enum vp_status st = VP_ERR_NOMEM;

    t = (struct vp_cuda_tensors *)calloc(1, sizeof(*t));
    if (!t)
        return VP_ERR_NOMEM;
    t->n_tensors = n_tensors;
    t->first = (int *)calloc((size_t)n_tensors + 1, sizeof(*t->first));
    for (int i = 0; i < n_tensors; i++) {
        /* load_quad() and store_quad() need aligned addresses. */
        VP_BUG_ON(tensors[i].offset % 4 != 0 || tensors[i].grad % 4 != 0);
        n_chunks += (size_t)chunks_of(&tensors[i]);
    }
    if (t->first)
        st = alloc_cut(t, n_chunks);
    if (st == VP_OK)
        st = upload_cut(t, tensors, n_chunks);
    if (st != VP_OK) {
        vp_cuda_tensors_free(t);
        return st;
    }
    *out = t;
    return VP_OK;
}

void vp_cuda_tensors_free(struct vp_cuda_tensors *t)
{
    if (!t)
        return;
    cudaFree(t->cut.chunks);
    free(t->first);
    free(t);
}

/* ---- Sums --------------------------------------------------------------- */

/* Sum of `x` over all THREADS threads. `shared` may be reused only after a
 * barrier. */
static __device__ double block_sum(double x, double shared[THREADS / 32])
{
    double sum = 0.0;

    for (int lane = 16; lane > 0; lane /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, lane);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = x;
    __syncthreads();
    for (int i = 0; i < THREADS / 32; i++)
        sum += shared[i];
    return sum;
}

static __device__ __forceinline__ double squares(const quad<float> &q)
{
    double sum = 0.0;

    for (int j = 0; j < 4; j++)
        sum += (double)q.x[j] * (double)q.x[j];
    return sum;
}

/* Sum of squares of a chunk's gradients. One block per chunk. */
static __global__ void __launch_bounds__(THREADS)
    chunk_squares(struct cut cut, const float *grad)
{
    __shared__ double shared[THREADS / 32];
    struct chunk chunk = cut.chunks[blockIdx.x];
    double sum = 0.0;

    for (int i = 4 * threadIdx.x; i < chunk.n; i += 4 * THREADS) {
        if (chunk.n - i >= 4)
            sum += squares(load_quad(grad + chunk.grad + i, 4));
        else
            sum += squares(load_quad(grad + chunk.grad + i, chunk.n - i));
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        cut.sums[blockIdx.x].x[0] = sum;
}

/* Sum `which` over the chunks of a tensor, by one block. */
static __device__ double tensor_sum(const struct cut &cut, int tensor,
                                    int which, double shared[THREADS / 32])
{
    int end = cut.first[tensor + 1];
    double sum = 0.0;

    for (int i = cut.first[tensor] + threadIdx.x; i < end; i += THREADS)
        sum += cut.sums[i].x[which];
    return block_sum(sum, shared);
}

/* One block per tensor. `sums_out` is pinned memory of the host, written
 * directly: a copy would take longer than the sums. */
static __global__ void __launch_bounds__(THREADS)
    tensor_squares(struct cut cut, double *sums_out)
{
    __shared__ double shared[THREADS / 32];
    double sum = tensor_sum(cut, blockIdx.x, 0, shared);

    if (threadIdx.x == 0)
        sums_out[blockIdx.x] = sum;
}

void vp_cuda_add_squares(struct vp_cuda_tensors *tensors, double *sums_out,
                         cudaStream_t stream)
{
    if (tensors->n_tensors > 0)
        tensor_squares<<<tensors->n_tensors, THREADS, 0, stream>>>(tensors->cut,
                                                                   sums_out);
}

void vp_cuda_sum_squares(struct vp_cuda_tensors *tensors, const float *grad,
                         double *sums_out, cudaStream_t stream)
{
    int n_chunks = tensors->first[tensors->n_tensors];

    if (n_chunks > 0)
        chunk_squares<<<n_chunks, THREADS, 0, stream>>>(tensors->cut, grad);
    vp_cuda_add_squares(tensors, sums_out, stream);
}

/* ---- Steps -------------------------------------------------------------- */

/* Addresses of a step; `m` and `v` are the moments. */
struct arrays {
    const void *w_old;
    void *w_new, *master;
    const float *grad;
    float *m, *v;
};

static struct arrays arrays_of(const struct vp_optim_step *step)
{
    struct arrays a;

    a.w_old = step->w_old;
    a.w_new = step->w_new;
    a.master = step->master;
    a.grad = step->grad;
    a.m = step->moment[0];
    a.v = step->moment[1];
    return a;
}

static struct coefs coefs_of(const struct vp_optim_step *step)
{
    struct coefs c;

    c.with_decay = vp_optim_coef_of(step, true);
    c.without = vp_optim_coef_of(step, false);
    return c;
}

/* The coefficients change with every step, but a captured graph keeps the
 * arguments of its kernels. A launch outside of the graph therefore writes them
 * to memory, where the kernels read them. */
static __global__ void set_coefs(struct coefs *dst, struct coefs value)
{
    *dst = value;
}

void vp_cuda_set_step(struct vp_cuda_tensors *tensors,
                      const struct vp_optim_step *step, cudaStream_t stream)
{
    set_coefs<<<1, 1, 0, stream>>>(tensors->cut.coefs, coefs_of(step));
}

static __device__ __forceinline__ struct vp_optim_coef coef_of(
    const struct cut &cut, const struct chunk &chunk)
{
    return chunk.decay ? cut.coefs->with_decay : cut.coefs->without;
}

/* Weights have type T; optim/optim.h describes where they are stored. The
 * 16-bit weights are read again by the next forward. All other arrays are used
 * once per step, so they are loaded and stored with load_once() and
 * store_once(). */

template <typename T> constexpr bool is_bf16 = std::is_same_v<T, __nv_bfloat16>;

template <bool ONCE, typename T>
static __device__ __forceinline__ quad<T> load_some(const T *from, int left)
{
    return ONCE ? load_once(from, left) : load_quad(from, left);
}

static __device__ __forceinline__ quad<float> join(const quad<uint16_t> &high,
                                                   const quad<uint16_t> &low)
{
    quad<float> q;

    for (int j = 0; j < 4; j++)
        q.x[j] = vp_halves_join(high.x[j], low.x[j]);
    return q;
}

template <typename T, bool ONCE>
static __device__ __forceinline__ quad<float> load_weights(
    const struct arrays &a, int64_t at, int left)
{
    if constexpr (is_bf16<T>)
        return join(load_some<ONCE>((const uint16_t *)a.w_old + at, left),
                    load_some<ONCE>((const uint16_t *)a.master + at, left));
    else if constexpr (sizeof(T) == sizeof(float))
        return load_some<ONCE>((const float *)a.w_old + at, left);
    else
        return load_some<ONCE>((const float *)a.master + at, left);
}

static __device__ __forceinline__ void store_halves(const struct arrays &a,
                                                    int64_t at,
                                                    const quad<float> &w,
                                                    int left)
{
    quad<uint16_t> high, low;

    for (int j = 0; j < 4; j++) {
        struct vp_halves halves = vp_halves_split(w.x[j]);

        high.x[j] = halves.high;
        low.x[j] = halves.low;
    }
    store_quad((uint16_t *)a.w_new + at, high, left);
    store_once((uint16_t *)a.master + at, low, left);
}

template <typename T>
static __device__ __forceinline__ void store_rounded(const struct arrays &a,
                                                     int64_t at,
                                                     const quad<float> &w,
                                                     int left)
{
    quad<T> rounded;

    for (int j = 0; j < 4; j++)
        rounded.x[j] = vp_round<T>(w.x[j]);
    store_quad((T *)a.w_new + at, rounded, left);
    store_once((float *)a.master + at, w, left);
}

template <typename T>
static __device__ __forceinline__ void store_weights(const struct arrays &a,
                                                     int64_t at,
                                                     const quad<float> &w,
                                                     int left)
{
    if constexpr (is_bf16<T>)
        store_halves(a, at, w, left);
    else if constexpr (sizeof(T) == sizeof(float))
        store_once((float *)a.w_new + at, w, left);
    else
        store_rounded<T>(a, at, w, left);
}

/* One step for up to four elements. Returns the sum of the squared gradients if
 * EARLY, else 0. With EARLY, elements whose gradient is not finite do not
 * change. */
template <typename T, bool EARLY>
static __device__ __forceinline__ double sgd_quad(const struct arrays &a,
                                                  int64_t at, const float *grad,
                                                  int left,
                                                  const struct vp_optim_coef &c)
{
    const quad<float> w = load_weights<T, true>(a, at, left);
    const quad<float> g = load_quad(grad, left);
    const quad<float> m = load_once(a.m + at, left);
    const double sum = EARLY ? squares(g) : 0.0;
    quad<float> w_new, m_new;

    for (int j = 0; j < 4; j++) {
        m_new.x[j] = c.beta1 * m.x[j] + (c.grad_scale * g.x[j] + c.l2 * w.x[j]);
        w_new.x[j] = w.x[j] - c.lr * m_new.x[j];
        if (EARLY && !isfinite(g.x[j])) {
            m_new.x[j] = m.x[j];
            w_new.x[j] = w.x[j];
        }
    }
    store_once(a.m + at, m_new, left);
    store_weights<T>(a, at, w_new, left);
    return sum;
}

template <typename T, bool EARLY>
static __device__ __forceinline__ double adam_quad(
    const struct arrays &a, int64_t at, const float *grad, int left,
    const struct vp_optim_coef &c)
{
    const quad<float> w = load_weights<T, true>(a, at, left);
    const quad<float> g = load_quad(grad, left);
    const quad<float> m = load_once(a.m + at, left);
    const quad<float> v = load_once(a.v + at, left);
    const double sum = EARLY ? squares(g) : 0.0;
    quad<float> w_new, m_new, v_new;

    for (int j = 0; j < 4; j++) {
        float gj = c.grad_scale * g.x[j] + c.l2 * w.x[j];

        m_new.x[j] = vp_optim_moment1(m.x[j], gj, &c);
        v_new.x[j] = vp_optim_moment2(v.x[j], gj, &c);
        w_new.x[j] = c.keep * w.x[j] -
                     c.lr * vp_optim_direction(m_new.x[j], v_new.x[j], &c);
        if (EARLY && !isfinite(g.x[j])) {
            m_new.x[j] = m.x[j];
            v_new.x[j] = v.x[j];
            w_new.x[j] = w.x[j];
        }
    }
    store_once(a.m + at, m_new, left);
    store_once(a.v + at, v_new, left);
    store_weights<T>(a, at, w_new, left);
    return sum;
}

template <typename T, bool ADAM, bool EARLY>
static __device__ __forceinline__ double step_quad(
    const struct arrays &a, int64_t at, const float *grad, int left,
    const struct vp_optim_coef &c)
{
    return ADAM ? adam_quad<T, EARLY>(a, at, grad, left, c)
                : sgd_quad<T, EARLY>(a, at, grad, left, c);
}

/* One step for fewer than four elements, one by one: as a quad they would need
 * too many registers to run BLOCKS blocks on a processor. */
template <typename T, bool ADAM, bool EARLY>
static __device__ __forceinline__ double step_rest(
    const struct arrays &a, int64_t at, const float *grad, int left,
    const struct vp_optim_coef &c)
{
    double sum = 0.0;

#pragma unroll 1
    for (int j = 0; j < left; j++)
        sum += step_quad<T, ADAM, EARLY>(a, at + j, grad + j, 1, c);
    return sum;
}

/* SGD or Adam, element by element, one block for each chunk of `which`. With
 * EARLY, also stores the sums of chunk_squares(). */
template <typename T, bool ADAM, bool EARLY>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    step_chunk(struct cut cut, struct vp_cuda_ranges which, struct arrays a)
{
    __shared__ double shared[THREADS / 32];
    int index = vp_cuda_ranges_get(&which, (int)blockIdx.x);
    struct chunk chunk = cut.chunks[index];
    struct vp_optim_coef c = coef_of(cut, chunk);
    double sum = 0.0;

    for (int i = 4 * threadIdx.x; i < chunk.n; i += 4 * THREADS) {
        int64_t at = chunk.begin + i;
        const float *grad = a.grad + chunk.grad + i;

        if (chunk.n - i >= 4)
            sum += step_quad<T, ADAM, EARLY>(a, at, grad, 4, c);
        else
            sum += step_rest<T, ADAM, EARLY>(a, at, grad, chunk.n - i, c);
    }
    if (!EARLY)
        return;
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        cut.sums[index].x[0] = sum;
}

/* LAMB, first pass: updates the moments, and adds the squares of w to `w2` and
 * the squares of the update direction u to `u2`. */
template <typename T>
static __device__ __forceinline__ void measure_quad(
    const struct arrays &a, int64_t at, const float *grad, int left,
    const struct vp_optim_coef &c, double *w2, double *u2)
{
    quad<float> w = load_weights<T, false>(a, at, left);
    quad<float> g = load_quad(grad, left);
    quad<float> m = load_quad(a.m + at, left);
    quad<float> v = load_quad(a.v + at, left);

    for (int j = 0; j < 4; j++) {
        float gj = c.grad_scale * g.x[j], u;

        m.x[j] = vp_optim_moment1(m.x[j], gj, &c);
        v.x[j] = vp_optim_moment2(v.x[j], gj, &c);
        u = vp_optim_direction(m.x[j], v.x[j], &c) + c.decay * w.x[j];
        if (j >= left)
            continue; /* padding: u is 0 / 0 if eps is 0 */
        *w2 += (double)w.x[j] * (double)w.x[j];
        *u2 += (double)u * (double)u;
    }
    store_quad(a.m + at, m, left);
    store_quad(a.v + at, v, left);
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    lamb_measure(struct cut cut, struct arrays a)
{
    __shared__ double shared[2][THREADS / 32];
    struct chunk chunk = cut.chunks[blockIdx.x];
    struct vp_optim_coef c = coef_of(cut, chunk);
    double w2 = 0.0, u2 = 0.0;

    for (int i = 4 * threadIdx.x; i < chunk.n; i += 4 * THREADS) {
        int64_t at = chunk.begin + i;
        const float *grad = a.grad + chunk.grad + i;

        if (chunk.n - i >= 4)
            measure_quad<T>(a, at, grad, 4, c, &w2, &u2);
        else
            measure_quad<T>(a, at, grad, chunk.n - i, c, &w2, &u2);
    }
    w2 = block_sum(w2, shared[0]);
    u2 = block_sum(u2, shared[1]);
    if (threadIdx.x == 0) {
        cut.sums[blockIdx.x].x[0] = w2;
        cut.sums[blockIdx.x].x[1] = u2;
    }
}

/* LAMB, second pass: the learning rate of each tensor times its trust ratio |w|
 * / |u|, which is 1 if either norm is 0. */
static __global__ void __launch_bounds__(THREADS) lamb_rates(struct cut cut)
{
    __shared__ double shared[2][THREADS / 32];
    double w2 = tensor_sum(cut, blockIdx.x, 0, shared[0]);
    double u2 = tensor_sum(cut, blockIdx.x, 1, shared[1]);

    if (threadIdx.x == 0) {
        double ratio = w2 > 0.0 && u2 > 0.0 ? sqrt(w2 / u2) : 1.0;

        cut.rates[blockIdx.x] = (float)(cut.coefs->without.lr * ratio);
    }
}

/* LAMB, third pass: w_new = w - rate * u, with u computed again from the new
 * moments. */
template <typename T>
static __device__ __forceinline__ void apply_quad(const struct arrays &a,
                                                  int64_t at, int left,
                                                  const struct vp_optim_coef &c,
                                                  float rate)
{
    quad<float> w = load_weights<T, false>(a, at, left);
    quad<float> m = load_quad(a.m + at, left);
    quad<float> v = load_quad(a.v + at, left);

    for (int j = 0; j < 4; j++)
        w.x[j] = w.x[j] - rate * (vp_optim_direction(m.x[j], v.x[j], &c) +
                                  c.decay * w.x[j]);
    store_weights<T>(a, at, w, left);
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    lamb_apply(struct cut cut, struct arrays a)
{
    struct chunk chunk = cut.chunks[blockIdx.x];
    struct vp_optim_coef c = coef_of(cut, chunk);
    float rate = cut.rates[chunk.tensor];

    for (int i = 4 * threadIdx.x; i < chunk.n; i += 4 * THREADS) {
        int64_t at = chunk.begin + i;

        if (chunk.n - i >= 4)
            apply_quad<T>(a, at, 4, c, rate);
        else
            apply_quad<T>(a, at, chunk.n - i, c, rate);
    }
}

static bool is_sgd(const struct vp_optim_step *step)
{
    return step->config.kind == VP_OPTIM_SGD;
}

template <typename T>
static void lamb(struct vp_cuda_tensors *tensors, const struct arrays &a,
                 cudaStream_t stream)
{
    int n_chunks = tensors->first[tensors->n_tensors];
    struct cut cut = tensors->cut;

    lamb_measure<T><<<n_chunks, THREADS, 0, stream>>>(cut, a);
    lamb_rates<<<tensors->n_tensors, THREADS, 0, stream>>>(cut);
    lamb_apply<T><<<n_chunks, THREADS, 0, stream>>>(cut, a);
}

/* Ranges of chunks that belong to the tensors in `which`. */
static struct vp_cuda_ranges chunks_at(const struct vp_cuda_tensors *tensors,
                                       const struct vp_cuda_ranges *which)
{
    struct vp_cuda_ranges chunks = *which;

    for (int i = 0; i < which->n; i++) {
        chunks.at[i].begin = tensors->first[which->at[i].begin];
        chunks.at[i].end = tensors->first[which->at[i].end];
    }
    return chunks;
}

template <typename T, bool EARLY>
static void step_chunks(struct vp_cuda_tensors *tensors,
                        const struct vp_cuda_ranges *which,
                        const struct vp_optim_step *step, cudaStream_t stream)
{
    struct vp_cuda_ranges chunks = chunks_at(tensors, which);
    int n_chunks = vp_cuda_ranges_count(&chunks);
    struct arrays a = arrays_of(step);

    if (n_chunks == 0)
        return;
    if (is_sgd(step))
        step_chunk<T, false, EARLY>
            <<<n_chunks, THREADS, 0, stream>>>(tensors->cut, chunks, a);
    else
        step_chunk<T, true, EARLY>
            <<<n_chunks, THREADS, 0, stream>>>(tensors->cut, chunks, a);
}

template <typename T>
static void update_as(struct vp_cuda_tensors *tensors,
                      const struct vp_optim_step *step, cudaStream_t stream)
{
    struct vp_cuda_ranges all;

    all.n = 1;
    all.at[0].begin = 0;
    all.at[0].end = tensors->n_tensors;
    if (step->config.kind == VP_OPTIM_LAMB)
        lamb<T>(tensors, arrays_of(step), stream);
    else
        step_chunks<T, false>(tensors, &all, step, stream);
}

void vp_cuda_update(struct vp_cuda_tensors *tensors,
                    const struct vp_optim_step *step, cudaStream_t stream)
{
    vp_cuda_set_step(tensors, step, stream);
    if (tensors->first[tensors->n_tensors] > 0)
        VP_WITH_TYPE(step->dtype, update_as<T>(tensors, step, stream));
}

void vp_cuda_update_ranges(struct vp_cuda_tensors *tensors,
                           const struct vp_cuda_ranges *which,
                           const struct vp_optim_step *step,
                           cudaStream_t stream)
{
    VP_BUG_ON(step->config.kind == VP_OPTIM_LAMB);
    VP_WITH_TYPE(step->dtype,
                 (step_chunks<T, true>(tensors, which, step, stream)));
}

/* ---- One long array ----------------------------------------------------- */

static int blocks_for(int64_t n)
{
    int64_t n_blocks = (n + THREADS - 1) / THREADS;

    return n_blocks < MAX_BLOCKS ? (int)n_blocks : (int)MAX_BLOCKS;
}

static bool is_aligned(const void *data)
{
    return (uintptr_t)data % 16 == 0;
}

/* The first 4 * n_quads elements are added by quads, the rest one by one. */
static __global__ void __launch_bounds__(THREADS)
    add_floats(float *dst, const float *src, int64_t n, int64_t n_quads)
{
    int64_t first = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * THREADS;

    for (int64_t i = first; i < n_quads; i += step) {
        quad<float> a = load_quad(dst + 4 * i, 4);
        quad<float> b = load_quad(src + 4 * i, 4);

        for (int j = 0; j < 4; j++)
            a.x[j] += b.x[j];
        store_quad(dst + 4 * i, a, 4);
    }
    for (int64_t i = 4 * n_quads + first; i < n; i += step)
        dst[i] += src[i];
}

void vp_cuda_add_floats(float *dst, const float *src, int64_t n,
                        cudaStream_t stream)
{
    int64_t n_quads = is_aligned(dst) && is_aligned(src) ? n / 4 : 0;

    if (n > 0)
        add_floats<<<blocks_for(n_quads ? n_quads : n), THREADS, 0, stream>>>(
            dst, src, n, n_quads);
}

static __global__ void __launch_bounds__(THREADS)
    shorten_floats(float *data, int64_t n)
{
    int64_t step = (int64_t)gridDim.x * THREADS;

    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += step) {
        uint32_t bits = __float_as_uint(data[i]);

        if ((bits & 0x7FFFFFFFu) > 0x7F800000u) /* a NaN stays a NaN */
            bits |= 0x400000u;
        else
            bits += 0x7FFFu + (bits >> 16 & 1);
        data[i] = __uint_as_float(bits & 0xFFFF0000u);
    }
}

void vp_cuda_shorten_floats(float *data, int64_t n, cudaStream_t stream)
{
    if (n > 0)
        shorten_floats<<<blocks_for(n), THREADS, 0, stream>>>(data, n);
}

/* The first vp_vec<T>::N * n_vecs elements are read as vectors, the rest one by
 * one. All threads that find a non-finite element write the same value, so
 * their order does not matter. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    find_nonfinite(const T *data, int64_t n, int64_t n_vecs, int *flag_out)
{
    const vp_vec<T> *vecs = (const vp_vec<T> *)data;
    int64_t first = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * THREADS;
    bool found = false;

    for (int64_t i = first; i < n_vecs; i += step) {
        vp_vec<T> v = vecs[i];

        for (int j = 0; j < vp_vec<T>::N; j++)
            found |= !isfinite(vp_float(v.x[j]));
    }
    for (int64_t i = vp_vec<T>::N * n_vecs + first; i < n; i += step)
        found |= !isfinite(vp_float(data[i]));
    if (found)
        *flag_out = 1;
}

template <typename T>
static void find_nonfinite_as(const void *data, int64_t n, int *flag_out,
                              cudaStream_t stream)
{
    int64_t n_vecs = is_aligned(data) ? n / vp_vec<T>::N : 0;

    find_nonfinite<T><<<blocks_for(n_vecs ? n_vecs : n), THREADS, 0, stream>>>(
        (const T *)data, n, n_vecs, flag_out);
}

void vp_cuda_find_nonfinite(const void *data, int64_t n, enum vp_dtype dtype,
                            int *flag_out, cudaStream_t stream)
{
    if (n > 0 && dtype != VP_DTYPE_I32)
        VP_WITH_TYPE(dtype, find_nonfinite_as<T>(data, n, flag_out, stream));
}
