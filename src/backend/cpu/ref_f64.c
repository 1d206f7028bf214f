/* The reference kernels in double: tests compare their gradients with finite
 * differences. */
#define VP_REAL double
#define VP_REF_TABLE vp_cpu_ref_f64
#include "backend/cpu/ref_kernels.inc"
