#include "backend/facts.h"

#include "backend/cpu/gemm_bf16.h"
#include "backend/cpu/isa.h"

#include <stdatomic.h>

/* Rounding and packing cost something, too. */
#define LEAST_GAIN 1.2

struct vp_device_facts vp_backend_facts(const struct vp_backend_ops *ops,
                                        const struct vp_backend_config *config)
{
    return (struct vp_device_facts){
        .host_memory = ops->device->host_memory,
        .updates_early = ops->updates_early,
        .w_linger = ops->w_linger,
        .grad_linger = ops->grad_linger,
        .scratch = ops->scratch_bytes,
        .scratch_ctx = config,
        .staging = ops->staging_bytes,
    };
}

const char *vp_cores_isa(void)
{
    vp_cpu_read_isa(NULL); /* a wrong name is refused when kernels run */
    return vp_cpu_isa_name(vp_cpu_isa());
}

bool vp_cores_multiply_bf16(void)
{
    vp_cpu_read_isa(NULL);
    return vp_cpu_isa() >= VP_ISA_AVX512_BF16;
}

bool vp_cores_prefer_bf16(void)
{
    enum { UNKNOWN, NO, YES };
    static _Atomic(int) timed = UNKNOWN;
    int answer = atomic_load(&timed);

    if (!vp_cores_multiply_bf16())
        return false;
    if (vp_cpu_isa() >= VP_ISA_AMX_BF16)
        return true;
#if defined(__x86_64__)
    if (answer == UNKNOWN) {
        answer = vp_gemm_avx512_bf16_gain() > LEAST_GAIN ? YES : NO;
        atomic_store(&timed, answer);
    }
#endif
    return answer == YES;
}
