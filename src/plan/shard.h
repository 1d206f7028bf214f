/* Shards of the optimizer's state, one for each replica of a stage: which elements
 * of the trained weights a replica updates, and keeps the master and moments of.
 *
 * Shards follow each other without a gap, and are cut between tensors or at
 * multiples of VP_OPTIM_CHUNK elements within one: sums per chunk are those of an
 * update without shards, and are added in the same order. */
#ifndef VP_PLAN_SHARD_H
#define VP_PLAN_SHARD_H

#include "graph/program.h"

/* Shard k has the elements [bounds_out[k], bounds_out[k + 1]) of the trained
 * weights of `program`; there are n_shards + 1 bounds. A shard may be empty. */
void vp_shard_bounds(const struct vp_program *program, int n_shards,
                     int64_t *bounds_out);
/* Returns the number of elements that every replica has memory for: those of
 * the longest shard, rounded up to VP_SHARD_ALIGN. With one shard or none: all
 * elements. */
enum { VP_SHARD_ALIGN = 64 };
int64_t vp_shard_room(const struct vp_program *program, int n_shards);

#endif
