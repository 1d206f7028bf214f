/* A rank: one thread with its device and stages, walking its action list. */
#ifndef VP_RUNTIME_RANK_RANK_H
#define VP_RUNTIME_RANK_RANK_H

#include "runtime/rank/rank_state.h"

/* Runs one job on the calling thread; every failure aborts the world. If the
 * schedule drains the pipe, the device is idle then; else it may still work. */
void vp_rank_run(struct vp_rank *rank, const struct vp_job *job);

#endif
