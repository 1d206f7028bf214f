/* Time and traffic of a stage, as its rank counts them. */
#ifndef VP_RUNTIME_RANK_WATCH_COUNT_H
#define VP_RUNTIME_RANK_WATCH_COUNT_H

#include "runtime/rank/rank_state.h"

/* Adds a recorded action to the sums of its stage; of its time, `summed_ns` went
 * into adding gradients of replicas. */
void vp_watch_count_work(struct vp_rank *rank,
                         const struct vp_trace_event *event, int64_t summed_ns);
void vp_watch_count_receive(struct vp_rank *rank,
                            const struct vp_trace_event *event);

/* Adds what the stage has counted so far. */
void vp_stage_stats_add(const struct vp_rank_stage *rs,
                        struct vp_stage_stats *sum);

#endif
