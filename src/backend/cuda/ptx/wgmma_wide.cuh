/* Products of a warpgroup twice as wide as those of wgmma.cuh:
 * wgmma.mma_async.m64n128k16, C [64, 128] += A [64, 16] B [16, 128]. A and B
 * are in shared memory, in tiles of wgmma.cuh, two next to each other for B.
 * c[i] holds columns 8i .. 8i + 7. */
#ifndef VP_BACKEND_CUDA_PTX_WGMMA_WIDE_CUH
#define VP_BACKEND_CUDA_PTX_WGMMA_WIDE_CUH

#include "backend/cuda/ptx/wgmma.cuh"

/* Descriptor of a tile, or of adjacent tiles, for a transposed B of more than
 * 64 columns. In a cluster the upper bits of an address name the block that
 * owns the memory; the descriptor has no room for them, so they are masked
 * out. */
template <typename T>
static __device__ inline uint64_t vp_wg_tiles_of(const vp_wg_tile<T> *tiles)
{
    uint64_t at = (vp_shared_address(tiles) & 0x3FFFF) >> 4;

    return 1ull << 62 | (uint64_t)(VP_WG_ALIGN >> 4) << 32 |
           (uint64_t)(sizeof(*tiles) >> 4) << 16 | at;
}

#define VP_WG_C4(c) "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
#define VP_WG_C16(c, i) \
    VP_WG_C4(c[i]), VP_WG_C4(c[i + 1]), VP_WG_C4(c[i + 2]), VP_WG_C4(c[i + 3])

#define VP_WG_MMA(type)                                                       \
    asm volatile(                                                             \
        "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"                      \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " "      \
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "       \
        "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "        \
        "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "        \
        "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "        \
        "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "        \
        "%62, %63}, "                                                         \
        "%64, %65, add, 1, 1, 0, %67;\n}"                                     \
        : VP_WG_C16(c, 0), VP_WG_C16(c, 4), VP_WG_C16(c, 8), VP_WG_C16(c, 12) \
        : "l"(a), "l"(b), "r"((int)add), "n"((int)B_TRANS)                    \
        : "memory")

/* Starts c = a b, or c += a b if `add`, for one step of 16 along the summed
 * index. */
template <typename T, bool B_TRANS>
static __device__ inline void vp_wg_mma_wide(float (&c)[16][4], uint64_t a,
                                             uint64_t b, bool add)
{
    if (vp_wg_is_half<T>::value)
        VP_WG_MMA("f16");
    else
        VP_WG_MMA("bf16");
}

/* Starts, as one group, c = a b, or c += a b if `add`, for the 64 elements of a
 * tile along the summed index. */
template <typename T, bool B_TRANS>
static __device__ inline void vp_wg_product_wide(float (&c)[16][4], uint64_t a,
                                                 uint64_t b, bool add)
{
#pragma unroll
    for (int k = 0; k < 4; k++)
        vp_wg_mma_wide<T, B_TRANS>(c, vp_wg_step<false>(a, k),
                                   vp_wg_step<B_TRANS>(b, k), add || k > 0);
    vp_wg_commit();
}

/* Waits until at most N groups are unfinished. `c` must belong to a group that
 * is finished then. */
template <int N>
static __device__ inline void vp_wg_wait_wide(float (&c)[16][4])
{
    vp_wg_wait<N>();
#pragma unroll
    for (int i = 0; i < 16; i++)
        asm volatile("" : VP_WG_C4(c[i]) : : "memory");
}

#undef VP_WG_MMA
#undef VP_WG_C16
#undef VP_WG_C4

#endif
