/* Time and traffic of a stage, counted by its rank. */
#ifndef VP_RUNTIME_RANK_WATCH_COUNT_H
#define VP_RUNTIME_RANK_WATCH_COUNT_H

#include "runtime/rank/rank_state.h"

/* Adds a recorded action to the sums of its stage. `summed_ns`: the part of its
 * time spent adding gradients of replicas. */
void vp_watch_count_work(struct vp_rank *rank,
                         const struct vp_trace_event *event, int64_t summed_ns);
/* Adds the wait of a recorded receive. */
void vp_watch_count_receive(struct vp_rank *rank,
                            const struct vp_trace_event *event);

/* Adds the counters of the stage to `sum`. */
void vp_stage_stats_add(const struct vp_rank_stage *rs,
                        struct vp_stage_stats *sum);

#endif
