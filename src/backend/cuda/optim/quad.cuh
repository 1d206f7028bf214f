/* Four elements at a time.
 *
 * Of a quad only the first `left` elements may belong to the tensor. Callers
 * pass the constant 4 wherever they can: then all loads of a thread leave
 * together, with no branch between them. */
#ifndef VP_BACKEND_CUDA_OPTIM_QUAD_CUH
#define VP_BACKEND_CUDA_OPTIM_QUAD_CUH

#include "backend/cuda/device.cuh"

#include <string.h>
#include <type_traits>

template <typename T> struct alignas(4 * sizeof(T)) quad {
    T x[4];
};

/* Elements behind the `left` first ones are 0. */
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

/* The same for what is used once per step: it leaves the cache before others,
 * as gradients that were just written and are not yet read. */

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
