/* Profiles of a GPU's time, by its backend. Functions end the program with a
 * line if something fails. */
#ifndef VP_BENCH_GPU_PROFILE_H
#define VP_BENCH_GPU_PROFILE_H

#include "backend/backend.h"
#include "backend/profile.h"

/* Begins a profile. `by_call`: launches the calls of this backend one by one,
 * and measures each kernel. Otherwise records all activity of the GPU
 * undisturbed. */
void gpu_profile_begin(struct vp_backend *backend, bool by_call);
struct vp_profile gpu_profile_end(struct vp_backend *backend);
/* Measures every matrix product of the profile again, alone on the GPU. */
void gpu_profile_alone(struct vp_backend *backend, struct vp_profile *profile);

#endif
