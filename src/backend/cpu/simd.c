/* Chooses the instruction set at run time. */
#include "backend/cpu/simd.h"

#include "backend/cpu/fast.h"

#include <dnnl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    dnnl_cpu_isa_t dnnl;
} isas[VP_ISA_COUNT] = {
    [VP_ISA_PLAIN] = { "plain", dnnl_cpu_isa_sse41 },
    [VP_ISA_AVX2] = { "avx2", dnnl_cpu_isa_avx2 },
    [VP_ISA_AVX512] = { "avx512", dnnl_cpu_isa_all },
};

static _Atomic(const struct vp_simd *) chosen;
/* What VP_ISA_BEST means: set by the environment. */
static _Atomic(int) best = VP_ISA_COUNT - 1;

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
    for (int isa = atomic_load(&best); !simd; isa--)
        simd = table_of((enum vp_isa)isa);
    atomic_store(&chosen, simd);
    return simd;
}

enum vp_status vp_cpu_read_isa(struct vp_err *err)
{
    const char *name = getenv("VPIPE_ISA");
    int isa = 0;

    if (!name || !*name)
        return VP_OK;
    while (isa < VP_ISA_COUNT && strcmp(name, isas[isa].name) != 0)
        isa++;
    if (isa == VP_ISA_COUNT)
        return vp_err_refuse(
            err, "",
            "VPIPE_ISA: unknown instruction set '%.40s'; plain, "
            "avx2 or avx512",
            name);
    if (!table_of((enum vp_isa)isa))
        return vp_err_refuse(
            err, "", "VPIPE_ISA: this processor lacks %s; use less", name);
    atomic_store(&best, isa);
    /* Refused after the first product, when it has been set already. */
    dnnl_set_max_cpu_isa(isas[isa].dnnl);
    return VP_OK;
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
