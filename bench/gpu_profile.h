/* Where the time of a GPU goes, as its backend tells it. What fails ends the
 * program with a line. */
#ifndef VP_BENCH_GPU_PROFILE_H
#define VP_BENCH_GPU_PROFILE_H

#include "backend/backend.h"
#include "backend/profile.h"

/* `by_call`: calls are launched one by one, and kernels are told apart; of this
 * backend only. Otherwise all that the GPU does is recorded as it is. */
void gpu_profile_begin(struct vp_backend *backend, bool by_call);
struct vp_profile gpu_profile_end(struct vp_backend *backend);
/* Measures every product of the profile alone. */
void gpu_profile_alone(struct vp_backend *backend, struct vp_profile *profile);

#endif
