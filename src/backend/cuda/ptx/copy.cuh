/* Copies to shared memory that do not wait. */
#ifndef VP_BACKEND_CUDA_PTX_COPY_CUH
#define VP_BACKEND_CUDA_PTX_COPY_CUH

#include <stdint.h>

static __device__ inline uint32_t vp_shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* 16 (or 4) bytes from device to shared memory; zeros if not `valid`, and then
 * `src` is any address that could be read. */
static __device__ inline void vp_copy16_async(void *shared, const void *src,
                                              bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(vp_shared_address(shared)), "l"(src), "r"(valid ? 16 : 0)
                 : "memory");
}

static __device__ inline void vp_copy4_async(void *shared, const void *src,
                                             bool valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(vp_shared_address(shared)), "l"(src), "r"(valid ? 4 : 0)
                 : "memory");
}

/* The copies since the last call are one group. */
static __device__ inline void vp_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

/* Until at most N of the thread's groups are under way. */
template <int N> static __device__ inline void vp_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}

#endif
