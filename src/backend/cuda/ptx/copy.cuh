/* Asynchronous copies from device memory to shared memory (cp.async). */
#ifndef VP_BACKEND_CUDA_PTX_COPY_CUH
#define VP_BACKEND_CUDA_PTX_COPY_CUH

#include <stdint.h>

/* Address of `shared` within shared memory, as PTX instructions take it. */
static __device__ inline uint32_t vp_shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* Starts to copy 16 (or 4) bytes from device memory to shared memory. Unless
 * `valid`, writes zeros instead; `src` must be a readable address even then. */
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

/* Makes one group of this thread's copies since its last call. */
static __device__ inline void vp_copy_commit(void)
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

/* Waits until at most N of this thread's groups are unfinished. */
template <int N> static __device__ inline void vp_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}

#endif
