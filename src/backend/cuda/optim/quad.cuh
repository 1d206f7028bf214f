/* Loads and stores of four elements at a time.
 *
 * Only the first `left` elements of a quad may belong to the tensor. Callers
 * pass the constant 4 where they can: the compiler then issues all loads of a
 * thread together, without a branch between them. */
#ifndef VP_BACKEND_CUDA_OPTIM_QUAD_CUH
#define VP_BACKEND_CUDA_OPTIM_QUAD_CUH

#include "backend/cuda/device.cuh"

#include <string.h>
#include <type_traits>

template <typename T> struct alignas(4 * sizeof(T)) quad {
    T x[4];
};

/* Elements from number `left` on are 0. */
template <typename T>
static __device__ __forceinline__ quad<T> load_quad(const T *from, int left)
{
    quad<T> q;

    if (left >= 4)
        return *(const quad<T> *)from;
    for (int j = 0; j < 4; j++)
        q.x[j] = j < left ? from[j] : (T)0;
    return q;
}

template <typename T>
static __device__ __forceinline__ void store_quad(T *to, const quad<T> &q,
                                                  int left)
{
    if (left >= 4) {
        *(quad<T> *)to = q;
        return;
    }
    for (int j = 0; j < 4; j++)
        if (j < left)
            to[j] = q.x[j];
}

/* Variants for data that is used once per step. They mark its cache lines as
 * the first to be evicted, which keeps gradients in the cache that were just
 * written and are not read yet. */

template <typename T>
using packet = std::conditional_t<sizeof(T) == 4, uint4, uint2>;

template <typename T>
static __device__ __forceinline__ quad<T> load_once(const T *from, int left)
{
    packet<T> all;
    quad<T> q;

    if (left < 4)
        return load_quad(from, left);
    all = __ldcs((const packet<T> *)from);
    memcpy(&q, &all, sizeof(q));
    return q;
}

template <typename T>
static __device__ __forceinline__ void store_once(T *to, const quad<T> &q,
                                                  int left)
{
    packet<T> all;

    if (left < 4) {
        store_quad(to, q, left);
        return;
    }
    memcpy(&all, &q, sizeof(q));
    __stcs((packet<T> *)to, all);
}

#endif
