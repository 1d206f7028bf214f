/* What every rank is doing, and the diagnosis when one waits too long. */
#ifndef VP_RUNTIME_RANK_WATCH_H
#define VP_RUNTIME_RANK_WATCH_H

#include "runtime/rank/rank_state.h"

/* A rank notes what it does: cheap, called around every action and wait. The
 * action goes to the recorder when it ends. */
void vp_watch_begin(struct vp_rank *rank, int action);
void vp_watch_end(struct vp_rank *rank);
/* The job is done. */
void vp_watch_rest(struct vp_rank *rank);
void vp_watch_begin_wait(struct vp_rank *rank);
/* Returns the nanoseconds waited; a wait that failed goes on, for reports. 0
 * where the device's own times count. */
int64_t vp_watch_end_wait(struct vp_rank *rank, enum vp_status st);
/* Returns true between the two. Any thread. */
bool vp_watch_is_waiting(const struct vp_rank *rank);

/* What the rank has done so far; on its thread. Of a device that lags behind, as
 * far as that was seen to have come. */
struct vp_mark vp_watch_mark(struct vp_rank *rank);

/* A report of one screen: which rank waits for which, and which one holds up all
 * others. `rank` ran out of time; -1: no rank does anything. */
void vp_watch_report(const struct vp_rank *ranks, int n_ranks, int rank,
                     struct vp_err *err);

#endif
