/* Finds how messages travel between the ranks of this run: the edges of the
 * plan, given the processes and devices of the world. */
#ifndef VP_RUNTIME_TRAINER_EDGES_H
#define VP_RUNTIME_TRAINER_EDGES_H

#include "runtime/rank/rank.h"

/* Sets edges, replica_edges and tie_edge of the pipeline. */
enum vp_status vp_edges_find(struct vp_pipeline *pipeline,
                             const struct vp_schedule *schedule);

#endif
