/* The reference kernels in float: tests compare the fast kernels with them. */
#define VP_REAL float
#define VP_REF_TABLE vp_cpu_ref_f32
#include "backend/cpu/ref_kernels.inc"
