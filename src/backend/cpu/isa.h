/* Instruction sets of the CPU kernels; each one includes those before it. */
#ifndef VP_BACKEND_CPU_ISA_H
#define VP_BACKEND_CPU_ISA_H

#include "base/status.h"

#include <stdbool.h>

enum vp_isa {
    VP_ISA_BEST = -1, /* the largest of the machine that VPIPE_ISA allows */
    VP_ISA_PLAIN,
    VP_ISA_AVX2,   /* with FMA */
    VP_ISA_AVX512, /* F, BW, DQ, VL */
    /* These two also multiply BF16 without widening it to floats. */
    VP_ISA_AVX512_BF16,
    VP_ISA_AMX_BF16,
    VP_ISA_COUNT
};

/* Returns the instruction set in use, never VP_ISA_BEST. */
enum vp_isa vp_cpu_isa(void);
/* Returns "plain", "avx2", "avx512", "avx512_bf16" or "amx_bf16". */
const char *vp_cpu_isa_name(enum vp_isa isa);

/* Applies the environment variable VPIPE_ISA, one of these names: it limits the
 * instruction sets of vpipe's kernels and of oneDNN. Refuses an unknown name,
 * and an instruction set that the machine lacks. */
enum vp_status vp_cpu_read_isa(struct vp_err *err);

/* For tests: sets the instruction set of vpipe's own kernels, not of oneDNN.
 * Returns false and changes nothing if the machine lacks it. */
bool vp_cpu_force_isa(enum vp_isa isa);

#endif
