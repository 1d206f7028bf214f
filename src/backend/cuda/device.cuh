/* Device functions that kernels share: conversions of elements, sums over a
 * warp and a block, dropout masks. */
#ifndef VP_BACKEND_CUDA_DEVICE_CUH
#define VP_BACKEND_CUDA_DEVICE_CUH

#include "backend/cuda/cuda.h"
#include "base/rng.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* ---- Elements: computed as float, rounded to the nearest when stored ---- */

static __device__ inline float vp_float(float x)
{
    return x;
}

static __device__ inline float vp_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ inline float vp_float(__half x)
{
    return __half2float(x);
}

template <typename T> __device__ inline T vp_round(float x);

template <> __device__ inline float vp_round<float>(float x)
{
    return x;
}

template <> __device__ inline __nv_bfloat16 vp_round<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

template <> __device__ inline __half vp_round<__half>(float x)
{
    return __float2half_rn(x);
}

/* ---- Two elements of two bytes in a word, the first in its lower half ---- */

/* Element `i` of the word, 0 or 1, as float. */
static __device__ inline float vp_half_word(uint32_t word, int i, __nv_bfloat16)
{
    return __uint_as_float(i ? word & 0xFFFF0000u : word << 16);
}

static __device__ inline float vp_half_word(uint32_t word, int i, __half)
{
    return __half2float(
        __ushort_as_half((unsigned short)(i ? word >> 16 : word)));
}

static __device__ inline uint32_t vp_pair(float low, float high, __nv_bfloat16)
{
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);

    return *(uint32_t *)&pair;
}

static __device__ inline uint32_t vp_pair(float low, float high, __half)
{
    __half2 pair = __floats2half2_rn(low, high);

    return *(uint32_t *)&pair;
}

/* x after a store and a load: an operator's result is rounded here. */
template <typename T> __device__ inline float vp_rounded(float x)
{
    return vp_float(vp_round<T>(x));
}

/* 16 bytes of elements, for aligned loads and stores. */
template <typename T> struct alignas(16) vp_vec {
    enum { N = 16 / sizeof(T) };
    T x[N];
};

/* Runs `body` with T set to the C++ type of `dtype`. */
#define VP_WITH_TYPE(dtype, body)    \
    do {                             \
        switch (dtype) {             \
        case VP_DTYPE_BF16: {        \
            typedef __nv_bfloat16 T; \
            body;                    \
            break;                   \
        }                            \
        case VP_DTYPE_F16: {         \
            typedef __half T;        \
            body;                    \
            break;                   \
        }                            \
        default: {                   \
            typedef float T;         \
            body;                    \
            break;                   \
        }                            \
        }                            \
    } while (0)

/* ---- Sums: the same tree every time ------------------------------------- */

static __device__ inline float vp_warp_sum(float x)
{
    for (int lane = 16; lane > 0; lane /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, lane);
    return x;
}

static __device__ inline float vp_warp_max(float x)
{
    for (int lane = 16; lane > 0; lane /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, lane));
    return x;
}

/* Sum of x over all threads of the block, whose number is a multiple of 32.
 * `shared` has 32 floats and may be reused only after a barrier. */
static __device__ inline float vp_block_sum(float x, float *shared)
{
    int warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    float sum = 0.0f;

    x = vp_warp_sum(x);
    if (threadIdx.x % 32 == 0)
        shared[warp] = x;
    __syncthreads();
    for (int i = 0; i < n_warps; i++)
        sum += shared[i];
    return sum;
}

/* ---- Dropout: note [dropout] in base/rng.h ------------------------------ */

/* Parameters of the dropout of one call. */
struct vp_drop {
    const struct vp_cuda_mb *mb;
    uint32_t op;
    uint32_t threshold; /* 0: nothing is dropped */
    float scale;        /* factor of elements that are kept */
    int64_t q_len;
};

static inline struct vp_drop vp_drop_of(const struct vp_cuda_call *call)
{
    const struct vp_op *op = call->args.op;
    struct vp_drop drop;

    drop.mb = call->mb;
    drop.op = (uint32_t)op->stream;
    drop.threshold = call->args.mb->train ? vp_dropout_threshold(op->attr.p)
                                          : 0;
    drop.scale = drop.threshold ? vp_dropout_scale(op->attr.p) : 1.0f;
    drop.q_len = op->attr.q_len;
    return drop;
}

/* Arguments that all random bytes of a row of the batch have in common. */
struct vp_drop_row {
    uint64_t seed, sample;
    uint32_t position;
};

/* Row numbers have 32 bits: a 64-bit division would cost as much as the random
 * bytes. */
static __device__ inline struct vp_drop_row vp_drop_row_of(
    const struct vp_drop &drop, uint32_t row)
{
    uint32_t q_len = (uint32_t)drop.q_len;

    return { drop.mb->seed, drop.mb->first_sample + row / q_len, row % q_len };
}

/* Moves n rows further. Avoids another division, and reading drop.mb again,
 * which the compiler would do because it cannot exclude that drop.mb has
 * changed. */
static __device__ inline void vp_drop_row_move(struct vp_drop_row *at,
                                               const struct vp_drop &drop,
                                               uint32_t n)
{
    uint32_t q_len = (uint32_t)drop.q_len;

    for (at->position += n; at->position >= q_len; at->position -= q_len)
        at->sample++;
}

/* Random bytes for columns [16 group, 16 group + 16). */
static __device__ inline struct vp_rng4 vp_drop_bits(const struct vp_drop &drop,
                                                     struct vp_drop_row at,
                                                     uint32_t group)
{
    return vp_rng(at.seed, VP_RNG_DROPOUT, drop.op, group, at.position,
                  at.sample);
}

#endif
