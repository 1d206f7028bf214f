/* Detects the processor's instruction sets, and chooses one at run time. */
#include "backend/cpu/isa.h"

#include <dnnl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From <asm/prctl.h> of Linux 5.16; older headers lack them. */
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
#endif

static const struct {
    const char *name;
    dnnl_cpu_isa_t dnnl;
} isas[VP_ISA_COUNT] = {
    [VP_ISA_PLAIN] = { "plain", dnnl_cpu_isa_sse41 },
    [VP_ISA_AVX2] = { "avx2", dnnl_cpu_isa_avx2 },
    [VP_ISA_AVX512] = { "avx512", dnnl_cpu_isa_all },
    [VP_ISA_AVX512_BF16] = { "avx512_bf16", dnnl_cpu_isa_all },
    [VP_ISA_AMX_BF16] = { "amx_bf16", dnnl_cpu_isa_all },
};

static _Atomic(int) chosen = VP_ISA_BEST;
/* The upper limit that VP_ISA_BEST stands for; VPIPE_ISA lowers it. */
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

static bool has_avx512_bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* Returns true if the processor has AMX and Linux permits its use. The
 * permission must be requested once, and holds for all threads of the
 * process. */
static bool has_amx_bf16(void)
{
    enum { TILE = 1 << 24, BF16 = 1 << 22 };
    unsigned a, b, c, d;

    if (!has_avx512_bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        (d & TILE) == 0 || (d & BF16) == 0)
        return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) ==
           0;
}

static bool has_isa(enum vp_isa isa)
{
    switch (isa) {
    case VP_ISA_PLAIN:
        return true;
    case VP_ISA_AVX2:
        return has_avx2();
    case VP_ISA_AVX512:
        return has_avx512();
    case VP_ISA_AVX512_BF16:
        return has_avx512_bf16();
    case VP_ISA_AMX_BF16:
        return has_amx_bf16();
    default:
        return false;
    }
}

#else

static bool has_isa(enum vp_isa isa)
{
    return isa == VP_ISA_PLAIN;
}

#endif

enum vp_isa vp_cpu_isa(void)
{
    int isa = atomic_load(&chosen);

    if (isa != VP_ISA_BEST)
        return (enum vp_isa)isa;
    for (isa = atomic_load(&best); !has_isa((enum vp_isa)isa); isa--)
        ;
    atomic_store(&chosen, isa);
    return (enum vp_isa)isa;
}

const char *vp_cpu_isa_name(enum vp_isa isa)
{
    return isas[isa].name;
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
            "VPIPE_ISA: unknown instruction set '%.40s'; use plain, avx2, "
            "avx512, avx512_bf16 or amx_bf16",
            name);
    if (!has_isa((enum vp_isa)isa))
        return vp_err_refuse(
            err, "",
            "VPIPE_ISA: this processor lacks %s; use a smaller instruction set",
            name);
    if (atomic_exchange(&best, isa) != isa)
        atomic_store(&chosen, VP_ISA_BEST);
    /* Fails after the first product, but then a call before has set it. */
    dnnl_set_max_cpu_isa(isas[isa].dnnl);
    return VP_OK;
}

bool vp_cpu_force_isa(enum vp_isa isa)
{
    if (isa != VP_ISA_BEST && !has_isa(isa))
        return false;
    atomic_store(&chosen, isa);
    return true;
}
