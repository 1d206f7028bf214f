/* A rank: one thread with its device and stages, which runs its action list. */
#ifndef VP_RUNTIME_RANK_RANK_H
#define VP_RUNTIME_RANK_RANK_H

#include "runtime/rank/rank_state.h"

/* Runs one job on the calling thread. Every failure aborts the world. If the
 * schedule drains the pipeline, the device is idle afterwards; otherwise it may
 * still work. */
void vp_rank_run(struct vp_rank *rank, const struct vp_job *job);

#endif
