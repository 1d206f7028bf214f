/* Tracks the current action of every rank, and reports when one waits too
 * long. */
#ifndef VP_RUNTIME_RANK_WATCH_H
#define VP_RUNTIME_RANK_WATCH_H

#include "runtime/rank/rank_state.h"

/* Called by a rank around every action and every wait; cheap. A finished action
 * is added to the trace. */
void vp_watch_begin(struct vp_rank *rank, int action);
void vp_watch_end(struct vp_rank *rank);
/* Called at the end of a job. */
void vp_watch_rest(struct vp_rank *rank);
void vp_watch_begin_wait(struct vp_rank *rank);
/* Returns the nanoseconds waited; 0 if the device log counts the time. If the
 * wait failed (`st`), the rank stays marked as waiting, for reports. */
int64_t vp_watch_end_wait(struct vp_rank *rank, enum vp_status st);
/* Returns true between vp_watch_begin_wait() and vp_watch_end_wait(), and after
 * a wait that failed. Any thread. */
bool vp_watch_is_waiting(const struct vp_rank *rank);

/* Returns the counters of the rank so far. Called on its thread. For an
 * asynchronous device: up to the last action that it has finished. */
struct vp_mark vp_watch_mark(struct vp_rank *rank);

/* Writes a report of about one screen: which rank waits for which, and which
 * one holds up the others. `rank` ran out of time; -1: no rank makes
 * progress. */
void vp_watch_report(const struct vp_rank *ranks, int n_ranks, int rank,
                     struct vp_err *err);

#endif
