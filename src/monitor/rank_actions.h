/* Reads the current action of every rank from the blackboxes of this process
 * and from the files actions.<rank> of other processes. Used by one thread. */
#ifndef VP_MONITOR_RANK_ACTIONS_H
#define VP_MONITOR_RANK_ACTIONS_H

#include "monitor/live.h"
#include "run/summary.h"

struct vp_rank_actions;

enum vp_status vp_rank_actions_create(const struct vp_run_summary *summary,
                                      struct vp_rank_actions **out,
                                      struct vp_err *err);
void vp_rank_actions_free(struct vp_rank_actions *actions);
/* Writes an entry for every rank, at most VP_LIVE_MAX_RANKS. Returns their
 * number. Durations are measured by the clock of this process, because clocks
 * of other hosts are not comparable. */
int vp_rank_actions_read(struct vp_rank_actions *actions,
                         struct vp_live_rank *out);

#endif
