/* Chooses the instruction set at run time. */
#include "backend/cpu/simd.h"

#include "backend/cpu/fast.h"

#include <stdatomic.h>

static _Atomic(const struct vp_simd *) chosen;

#if defined(__x86_64__)

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

/* NULL if the machine lacks it. */
static const struct vp_simd *table_of(enum vp_isa isa)
{
    switch (isa) {
    case VP_ISA_PLAIN:
        return &vp_simd_plain;
    case VP_ISA_AVX2:
        return has_avx2() ? &vp_simd_avx2 : NULL;
    case VP_ISA_AVX512:
        return has_avx512() ? &vp_simd_avx512 : NULL;
    default:
        return NULL;
    }
}

#else

static const struct vp_simd *table_of(enum vp_isa isa)
{
    return isa == VP_ISA_PLAIN ? &vp_simd_plain : NULL;
}

#endif

const struct vp_simd *vp_simd(void)
{
    const struct vp_simd *simd = atomic_load(&chosen);

    if (simd)
        return simd;
    for (int isa = VP_ISA_COUNT - 1; !simd; isa--)
        simd = table_of((enum vp_isa)isa);
    atomic_store(&chosen, simd);
    return simd;
}

bool vp_cpu_force_isa(enum vp_isa isa)
{
    const struct vp_simd *simd = NULL;

    if (isa != VP_ISA_BEST) {
        simd = table_of(isa);
        if (!simd)
            return false;
    }
    atomic_store(&chosen, simd);
    return true;
}
