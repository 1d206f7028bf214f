/* Matrix products on the tensor cores by a warpgroup, which is four warps:
 * wgmma.mma_async.m64n64k16 of compute capability 9.0. Only for files that are
 * compiled for sm_90a.
 *
 * C [64, 64] += A [64, 16] B [16, 64] with 16-bit elements and C in float. Warp
 * w holds rows 16w .. 16w + 15 of C and A, in the fragments of mma.cuh. B, and
 * A unless it is in registers, is in shared memory, in tiles of rows of 64
 * elements. The 16 bytes number i of row r are at place i ^ (r % 8) of the row
 * ("128-byte swizzle", which avoids bank conflicts along rows and along
 * columns). A tile is used either as stored, with the summed index along its
 * rows, or transposed, with the summed index along its columns (PTX ISA,
 * "Matrix Descriptor"). */
#ifndef VP_BACKEND_CUDA_PTX_WGMMA_CUH
#define VP_BACKEND_CUDA_PTX_WGMMA_CUH

#include "backend/cuda/ptx/mma.cuh"

enum {
    VP_WG_ALIGN = 1024, /* bytes; alignment of a tile = eight rows */
    VP_WG_ROW_BYTES = 2 * VP_WG_DIM,
};

template <typename T> struct alignas(VP_WG_ALIGN) vp_wg_tile {
    T data[64][VP_WG_DIM];
};

/* Address of the 16 bytes of `row` that begin at column 8 * chunk. */
template <typename T>
static __device__ inline T *vp_wg_at(vp_wg_tile<T> &tile, int row, int chunk)
{
    return &tile.data[row][(chunk ^ row % 8) * 8];
}

/* Descriptor of a tile in shared memory. */
template <typename T>
static __device__ inline uint64_t vp_wg_tile_of(const vp_wg_tile<T> &tile)
{
    uint64_t at = vp_shared_address(&tile) >> 4;

    return 1ull << 62 | (uint64_t)(VP_WG_ALIGN >> 4) << 32 | 1ull << 16 | at;
}

/* Advances the descriptor `tile` by k steps of 16 along the summed index: along
 * rows or, with TRANS, along columns. */
template <bool TRANS>
static __device__ inline uint64_t vp_wg_step(uint64_t tile, int k)
{
    return tile + (uint64_t)(k * ((TRANS ? 16 * VP_WG_ROW_BYTES : 32) >> 4));
}

#define VP_WG_C4(io, c) io(c[0]), io(c[1]), io(c[2]), io(c[3])
#define VP_WG_C(io, c)                                              \
    VP_WG_C4(io, c[0]), VP_WG_C4(io, c[1]), VP_WG_C4(io, c[2]),     \
        VP_WG_C4(io, c[3]), VP_WG_C4(io, c[4]), VP_WG_C4(io, c[5]), \
        VP_WG_C4(io, c[6]), VP_WG_C4(io, c[7])
#define VP_WG_OLD(x) "+f"(x)
#define VP_WG_NEW(x) "=f"(x)

/* `a_b` names the operands A and B; C = A B if `add` is 0, else C += A B. */
#define VP_WG_MMA(type, a_b, add)                                   \
    "{\n.reg .pred add;\nsetp.ne.b32 add, " add ", 0;\n"            \
    "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, " \
    "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "  \
    "%26, %27, %28, %29, %30, %31}, " a_b ";\n}"

/* A in registers. */
#define VP_WG_MMA_REGISTERS(type, add, io)                                \
    asm volatile(                                                         \
        VP_WG_MMA(type, "{%32, %33, %34, %35}, %36, add, 1, 1, %37", add) \
        : VP_WG_C(io, c)                                                  \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),             \
          "n"((int)B_TRANS)                                               \
        : "memory")

/* A in shared memory. */
#define VP_WG_MMA_SHARED(type, add, io)                                 \
    asm volatile(VP_WG_MMA(type, "%32, %33, add, 1, 1, %34, %35", add)  \
                 : VP_WG_C(io, c)                                       \
                 : "l"(a), "l"(b), "n"((int)A_TRANS), "n"((int)B_TRANS) \
                 : "memory")

/* Expands `kind` for the element type T, and for c = a b or c += a b (ADD). */
#define VP_WG_START(kind)                   \
    do {                                    \
        if (vp_wg_is_half<T>::value && ADD) \
            kind("f16", "1", VP_WG_OLD);    \
        else if (vp_wg_is_half<T>::value)   \
            kind("f16", "0", VP_WG_NEW);    \
        else if (ADD)                       \
            kind("bf16", "1", VP_WG_OLD);   \
        else                                \
            kind("bf16", "0", VP_WG_NEW);   \
    } while (0)

template <typename T> struct vp_wg_is_half {
    enum { value = 0 };
};

template <> struct vp_wg_is_half<__half> {
    enum { value = 1 };
};

/* Starts c = a b, or c += a b with ADD, for one step of 16 along the summed
 * index. */
template <typename T, bool ADD, bool B_TRANS>
static __device__ inline void vp_wg_mma(float (&c)[8][4],
                                        const uint32_t (&a)[4], uint64_t b)
{
    VP_WG_START(VP_WG_MMA_REGISTERS);
}

template <typename T, bool ADD, bool A_TRANS, bool B_TRANS>
static __device__ inline void vp_wg_mma(float (&c)[8][4], uint64_t a,
                                        uint64_t b)
{
    VP_WG_START(VP_WG_MMA_SHARED);
}

/* Starts c [64, 64] = a b, or c += a b with ADD, for K steps of 16 along the
 * summed index. */
template <typename T, bool ADD, bool B_TRANS, int K>
static __device__ inline void vp_wg_product(float (&c)[8][4],
                                            const uint32_t (&a)[K][4],
                                            uint64_t b)
{
    vp_wg_mma<T, ADD, B_TRANS>(c, a[0], b);
#pragma unroll
    for (int k = 1; k < K; k++)
        vp_wg_mma<T, true, B_TRANS>(c, a[k], vp_wg_step<B_TRANS>(b, k));
}

template <typename T, bool ADD, bool A_TRANS, bool B_TRANS, int K>
static __device__ inline void vp_wg_product(float (&c)[8][4], uint64_t a,
                                            uint64_t b)
{
    vp_wg_mma<T, ADD, A_TRANS, B_TRANS>(c, a, b);
#pragma unroll
    for (int k = 1; k < K; k++)
        vp_wg_mma<T, true, A_TRANS, B_TRANS>(c, vp_wg_step<A_TRANS>(a, k),
                                             vp_wg_step<B_TRANS>(b, k));
}

/* Needed before the first product, and before products whose registers were
 * written since the previous product. */
static __device__ inline void vp_wg_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

/* Makes one group of the products since the last call. */
static __device__ inline void vp_wg_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

/* Waits until at most N groups are unfinished. Registers that the finished
 * groups read may then be overwritten, and their results may be read; pass
 * these as `c`, so that the compiler does not move reads of it before the
 * wait. */
template <int N> static __device__ inline void vp_wg_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory");
}

template <int N> static __device__ inline void vp_wg_wait(float (&c)[8][4])
{
    asm volatile("wgmma.wait_group.sync.aligned %32;"
                 : VP_WG_C(VP_WG_OLD, c)
                 : "n"(N)
                 : "memory");
}

/* Sets the number of registers of each thread of the warpgroup to N. The first
 * function raises it, and waits until other warpgroups have released enough
 * registers; the second lowers it. */
template <int N> static __device__ inline void vp_wg_take_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N));
}

template <int N> static __device__ inline void vp_wg_give_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(N));
}

/* Makes this thread's writes to shared memory visible to products and TMA
 * copies that start after the next barrier. */
static __device__ inline void vp_wg_publish(void)
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

/* Stores four 8x8 matrices: the reverse of vp_load_matrices(). Needs compute
 * capability 9.0. */
static __device__ inline void vp_store_matrices(void *row,
                                                const uint32_t (&src)[4])
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        :
        : "r"(vp_shared_address(row)), "r"(src[0]), "r"(src[1]), "r"(src[2]),
          "r"(src[3])
        : "memory");
}

/* Starts to copy the first n_rows rows of `src` to a tile; the other rows of
 * the tile are filled with zeros. N_THREADS threads share the work; this one is
 * number `thread`. */
template <int N_THREADS, typename T>
static __device__ inline void vp_wg_copy_tile(vp_wg_tile<T> &dst, const T *src,
                                              int64_t ld, int n_rows,
                                              int thread)
{
    int row = thread / 8, chunk = thread % 8;
    T *to = vp_wg_at(dst, row, chunk);
    const T *from = src + row * ld + 8 * chunk;

#pragma unroll
    for (int i = 0; i < 64; i += N_THREADS / 8) {
        bool inside = row + i < n_rows;

        vp_copy16_async(to + i * VP_WG_DIM, inside ? from + i * ld : src,
                        inside);
    }
}

#undef VP_WG_START
#undef VP_WG_MMA_SHARED
#undef VP_WG_MMA_REGISTERS
#undef VP_WG_MMA
#undef VP_WG_NEW
#undef VP_WG_OLD
#undef VP_WG_C
#undef VP_WG_C4

#endif
