/* What every rank is doing, and the verdict when one waits too long. */
#ifndef VP_RUNTIME_WATCH_H
#define VP_RUNTIME_WATCH_H

#include "runtime/rank.h"

/* A rank notes what it does: cheap, called around every action and wait. */
void vp_watch_begin(struct vp_rank *rank, int action);
void vp_watch_end(struct vp_rank *rank);
void vp_watch_wait(struct vp_rank *rank, bool waiting);

/* One screen: who waits for whom, and the rank at the end of the chain. */
void vp_watch_report(const struct vp_rank *rank, struct vp_err *err);

#endif
