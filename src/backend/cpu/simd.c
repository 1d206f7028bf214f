/* Selects the table of row kernels for the instruction set in use, and converts
 * single elements. */
#include "backend/cpu/simd.h"

#include "backend/cpu/isa.h"

#if defined(__x86_64__)

const struct vp_simd *vp_simd(enum vp_dtype dtype)
{
    bool bf16 = dtype == VP_DTYPE_BF16;

    switch (vp_cpu_isa()) {
    case VP_ISA_PLAIN:
        return bf16 ? &vp_simd_plain_bf16 : &vp_simd_plain;
    case VP_ISA_AVX2:
        return bf16 ? &vp_simd_avx2_bf16 : &vp_simd_avx2;
    default:
        return bf16 ? &vp_simd_avx512_bf16 : &vp_simd_avx512;
    }
}

#else

const struct vp_simd *vp_simd(enum vp_dtype dtype)
{
    return dtype == VP_DTYPE_BF16 ? &vp_simd_plain_bf16 : &vp_simd_plain;
}

#endif

float vp_elem_get(const struct vp_simd *simd, const void *array, int64_t i)
{
    float x;

    if (simd->dtype == VP_DTYPE_F32)
        return ((const float *)array)[i];
    vp_dtype_expand(simd->dtype, &x, (const uint16_t *)array + i, 1);
    return x;
}

void vp_elem_put(const struct vp_simd *simd, void *array, int64_t i, float x)
{
    if (simd->dtype == VP_DTYPE_F32)
        ((float *)array)[i] = x;
    else
        vp_dtype_round(simd->dtype, (uint16_t *)array + i, &x, 1);
}
