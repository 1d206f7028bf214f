/* Small kernels that pass values between host and device. Scalars of a
 * minibatch are passed as kernel arguments, so no host memory has to stay
 * unchanged until the device reads it. */
#include "backend/cuda/device.cuh"

static __global__ void set_mb(struct vp_cuda_mb *dst, struct vp_cuda_mb value)
{
    *dst = value;
}

extern "C" void vp_cuda_set_mb(struct vp_cuda_mb *dst, struct vp_cuda_mb value,
                               cudaStream_t stream)
{
    set_mb<<<1, 1, 0, stream>>>(dst, value);
}

/* Copies n words of type W. */
template <typename W>
static __global__ void carry(W *dst, const W *src, size_t n)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        dst[i] = src[i];
}

template <typename W>
static void carry_as(void *dst, const void *src, size_t n_bytes,
                     cudaStream_t stream)
{
    enum { THREADS = 256 };
    size_t n = n_bytes / sizeof(W);
    unsigned blocks = (unsigned)((n + THREADS - 1) / THREADS);

    carry<<<blocks, THREADS, 0, stream>>>((W *)dst, (const W *)src, n);
}

extern "C" void vp_cuda_carry(void *dst, const void *src, size_t n_bytes,
                              cudaStream_t stream)
{
    uintptr_t bits = (uintptr_t)dst | (uintptr_t)src | n_bytes;

    if (n_bytes == 0)
        return;
    if (bits % sizeof(uint4) == 0)
        carry_as<uint4>(dst, src, n_bytes, stream);
    else if (bits % sizeof(uint32_t) == 0)
        carry_as<uint32_t>(dst, src, n_bytes, stream);
    else
        carry_as<unsigned char>(dst, src, n_bytes, stream);
}

/* Pseudo-random numbers in -1 .. 1 computed from their index: varied enough to
 * draw the power of real data. */
template <typename T> static __global__ void fill_noise(T *dst, int64_t n)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += step) {
        uint32_t x = (uint32_t)i * 0x9E3779B9u;

        x = (x ^ x >> 16) * 0x85EBCA6Bu;
        dst[i] = vp_round<T>((float)(x >> 8) * 0x1p-23f - 1.0f);
    }
}

extern "C" void vp_cuda_fill_noise(void *dst, int64_t n, enum vp_dtype dtype,
                                   cudaStream_t stream)
{
    VP_WITH_TYPE(dtype, (fill_noise<T><<<1024, 256, 0, stream>>>((T *)dst, n)));
}

static __global__ void find_difference(const uint16_t *a, const uint16_t *b,
                                       int64_t n, int *flag)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += step)
        if (a[i] != b[i])
            *flag = 1;
}

extern "C" void vp_cuda_find_difference(const void *a, const void *b, int64_t n,
                                        int *flag_out, cudaStream_t stream)
{
    find_difference<<<1024, 256, 0, stream>>>((const uint16_t *)a,
                                              (const uint16_t *)b, n, flag_out);
}
