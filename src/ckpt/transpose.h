/* Transposes matrices whose layout in files differs from that in memory.
 * Private to ckpt. */
#ifndef VP_CKPT_TRANSPOSE_H
#define VP_CKPT_TRANSPOSE_H

#include <stdint.h>

/* in: [rows, cols], out: [cols, rows]; they must not overlap. */
void vp_transpose(float *out, const float *in, int64_t rows, int64_t cols);

#endif
