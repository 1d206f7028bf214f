/* The plain-C twins in double: finite differences judge them. */
#define VP_REAL double
#define VP_REF_TABLE vp_cpu_ref_f64
#include "backend/cpu/ref_kernels.inc"
