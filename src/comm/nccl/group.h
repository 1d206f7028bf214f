/* Groups of ranks whose GPUs reach each other. */
#ifndef VP_COMM_NCCL_GROUP_H
#define VP_COMM_NCCL_GROUP_H

#include "comm/nccl/nccl.h"

/* For sums, as vp_direct_group_create(). */
enum vp_status vp_nccl_group_create(struct vp_world *world, const int *ranks,
                                    int n_members, struct vp_group **out);
/* For gathers, as vp_direct_gather_create(). */
enum vp_status vp_nccl_gather_create(struct vp_world *world, const int *ranks,
                                     int n_members, struct vp_group **out);

#endif
