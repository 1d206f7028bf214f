/* Instruction sets: each has what those before it have. */
#ifndef VP_BACKEND_CPU_ISA_H
#define VP_BACKEND_CPU_ISA_H

#include "base/status.h"

#include <stdbool.h>

enum vp_isa {
    VP_ISA_BEST = -1, /* what the machine has and the environment allows */
    VP_ISA_PLAIN,
    VP_ISA_AVX2,   /* with FMA */
    VP_ISA_AVX512, /* F, BW, DQ, VL */
    /* The same, and products of BF16 without widening it to floats. */
    VP_ISA_AVX512_BF16,
    VP_ISA_AMX_BF16,
    VP_ISA_COUNT
};

/* The one in use, and its name: "plain", "avx2", "avx512", "avx512_bf16" or
 * "amx_bf16". */
enum vp_isa vp_cpu_isa(void);
const char *vp_cpu_isa_name(enum vp_isa isa);

/* The environment may hold vpipe and oneDNN to less than the machine has:
 * VPIPE_ISA is one of the names. */
enum vp_status vp_cpu_read_isa(struct vp_err *err);

/* For tests: the instruction set of vpipe's own kernels (oneDNN chooses for
 * itself). False, changing nothing, if the machine lacks it. */
bool vp_cpu_force_isa(enum vp_isa isa);

#endif
