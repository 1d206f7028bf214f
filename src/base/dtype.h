/* Types of tensor elements. */
#ifndef VP_BASE_DTYPE_H
#define VP_BASE_DTYPE_H

#include <stdint.h>

enum vp_dtype { VP_DTYPE_F32, VP_DTYPE_I32, VP_DTYPE_BF16, VP_DTYPE_F16 };

static inline int64_t vp_dtype_bytes(enum vp_dtype dtype)
{
    return dtype == VP_DTYPE_F32 || dtype == VP_DTYPE_I32 ? 4 : 2;
}

#endif
