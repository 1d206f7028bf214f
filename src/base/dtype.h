/* Element types of tensors, and conversions between them. */
#ifndef VP_BASE_DTYPE_H
#define VP_BASE_DTYPE_H

#include <stdint.h>

enum vp_dtype { VP_DTYPE_F32, VP_DTYPE_I32, VP_DTYPE_BF16, VP_DTYPE_F16 };

static inline int64_t vp_dtype_bytes(enum vp_dtype dtype)
{
    return dtype == VP_DTYPE_F32 || dtype == VP_DTYPE_I32 ? 4 : 2;
}

/* Converts `n` floats to BF16 or F16, rounding to nearest, ties to even;
 * vp_dtype_expand() converts back, exactly. `dtype` is VP_DTYPE_BF16 or
 * VP_DTYPE_F16. */
void vp_dtype_round(enum vp_dtype dtype, uint16_t *dst, const float *src,
                    int64_t n);
void vp_dtype_expand(enum vp_dtype dtype, float *dst, const uint16_t *src,
                     int64_t n);
/* Rounds `n` floats in place to values that `dtype` can represent. */
void vp_dtype_shorten(enum vp_dtype dtype, float *data, int64_t n);

#endif
