/* Matrix products on the tensor cores by one warp (mma.sync), and the loads of
 * their operands (ldmatrix).
 *
 * mma.sync.m16n8k16: C [16, 8] += A [16, 16] B [16, 8] with 16-bit elements and
 * C in float. Lane 4g + c (g 0 .. 7, c 0 .. 3) holds the following elements,
 * two in a 32-bit register with the lower index in the lower half (PTX ISA,
 * "Matrix Fragments for mma.m16n8k16"):
 *   A  a[0] row g    columns 2c, 2c+1       a[2] row g    columns 2c+8, 2c+9
 *      a[1] row g+8  columns 2c, 2c+1       a[3] row g+8  columns 2c+8, 2c+9
 *   B  b[0] rows 2c, 2c+1 of column g       b[1] rows 2c+8, 2c+9 of column g
 *   C  c[0], c[1] row g, columns 2c, 2c+1   c[2], c[3] row g+8, the same
 * Two neighbouring C of 8 columns, rounded to 16 bits, therefore form an A of
 * 16 columns without moving data between lanes.
 *
 * ldmatrix.x4 loads four 8x8 matrices. Lanes 8i .. 8i+7 supply the addresses of
 * the rows of matrix i. Register i of lane 4g + c receives elements 2c, 2c+1 of
 * row g or, with .trans, of column g. */
#ifndef VP_BACKEND_CUDA_PTX_MMA_CUH
#define VP_BACKEND_CUDA_PTX_MMA_CUH

#include "backend/cuda/device.cuh"
#include "backend/cuda/ptx/copy.cuh"

/* Two elements of type T in one register, `low` in the lower half. */
template <typename T>
static __device__ inline uint32_t vp_pack(float low, float high)
{
    return vp_pair(low, high, T());
}

template <typename T> static __device__ inline float2 vp_unpack(uint32_t both)
{
    return make_float2(vp_half_word(both, 0, T()), vp_half_word(both, 1, T()));
}

/* Loads four 8x8 matrices (see above). `row`: this lane's row, 16 bytes in
 * shared memory, aligned to 16. */
static __device__ inline void vp_load_matrices(uint32_t (&dst)[4],
                                               const void *row)
{
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(dst[0]), "=r"(dst[1]), "=r"(dst[2]), "=r"(dst[3])
        : "r"(vp_shared_address(row))
        : "memory");
}

static __device__ inline void vp_load_matrices_trans(uint32_t (&dst)[4],
                                                     const void *row)
{
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(dst[0]), "=r"(dst[1]), "=r"(dst[2]), "=r"(dst[3])
        : "r"(vp_shared_address(row))
        : "memory");
}

#define VP_MMA(type)                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type   \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "    \
                 "{%0, %1, %2, %3};"                                      \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), \
                   "r"(b[1]))

/* c += a b for elements of type T */
template <typename T>
static __device__ inline void vp_mma(float (&c)[4], const uint32_t (&a)[4],
                                     const uint32_t *b);

template <>
__device__ inline void vp_mma<__nv_bfloat16>(float (&c)[4],
                                             const uint32_t (&a)[4],
                                             const uint32_t *b)
{
    VP_MMA("bf16");
}

template <>
__device__ inline void vp_mma<__half>(float (&c)[4], const uint32_t (&a)[4],
                                      const uint32_t *b)
{
    VP_MMA("f16");
}

#undef VP_MMA

/* Returns four bytes. Byte i is 0xFF if bit 7 of the byte of `x` selected by
 * nibble i of `selector` (0 .. 3) is set, else 0. */
static __device__ inline uint32_t vp_spread_signs(uint32_t x, uint32_t selector)
{
    uint32_t y;

    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(x), "r"(selector | 0x8888u));
    return y;
}

/* 2^x within 2 ulp; 0 for -infinity. */
static __device__ inline float vp_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
