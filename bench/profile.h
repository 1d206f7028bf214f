/* Where the compute threads of a run are, by looking at them two thousand times
 * a second. */
#ifndef VP_BENCH_PROFILE_H
#define VP_BENCH_PROFILE_H

#include "backend/backend.h"

struct profile;

struct profile *profile_begin(const struct vp_backend *backend);
/* The share of each enum vp_cpu_part in the time of all threads; frees the
 * profile. */
void profile_end(struct profile *profile, double *share_out);

#endif
