/* A sampling profiler of the compute threads: 2000 samples per second. */
#ifndef VP_BENCH_PROFILE_H
#define VP_BENCH_PROFILE_H

#include "backend/backend.h"

struct profile;

struct profile *profile_begin(const struct vp_backend *backend);
/* Ends the profile: writes the share of each enum vp_cpu_part in the time of
 * all threads, and frees the profile. */
void profile_end(struct profile *profile, double *share_out);

#endif
