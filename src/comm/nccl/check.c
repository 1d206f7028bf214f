/* Compares api.h with NCCL's own header when vpipe is built. */
#include <nccl.h>

#include "comm/nccl/api.h"

_Static_assert(sizeof(struct vp_nccl_id) == sizeof(ncclUniqueId), "id");
_Static_assert((int)VP_NCCL_OK == (int)ncclSuccess, "success");
_Static_assert((int)VP_NCCL_BYTES == (int)ncclInt8, "bytes");
_Static_assert((int)VP_NCCL_FLOATS == (int)ncclFloat32, "floats");
_Static_assert((int)VP_NCCL_SUM == (int)ncclSum, "sum");
_Static_assert(sizeof(ncclResult_t) == sizeof(int), "results");
_Static_assert(sizeof(ncclDataType_t) == sizeof(int), "types");
