/* The plain-C twins in float: they judge the fast kernels. */
#define VP_REAL float
#define VP_REF_TABLE vp_cpu_ref_f32
#include "backend/cpu/ref_kernels.inc"
