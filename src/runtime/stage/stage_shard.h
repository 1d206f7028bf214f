/* The shard of the optimizer's state that this replica of a stage owns; see
 * plan/shard.h. After a sum of gradients it has those of its shard alone; sums of
 * squares are exchanged chunk by chunk; new weights are gathered from all owners. */
#ifndef VP_RUNTIME_STAGE_STAGE_SHARD_H
#define VP_RUNTIME_STAGE_STAGE_SHARD_H

#include "runtime/stage/shard_table.h"
#include "runtime/stage/stage.h"

enum vp_shard_array { VP_SHARD_MASTER, VP_SHARD_MOMENT1, VP_SHARD_MOMENT2 };

/* Exchanges `width` sums of each own chunk in shard->mine. shard->all then has
 * those of all chunks. */
enum vp_status vp_stage_shard_exchange(struct vp_stage *stage, int width);
/* Adds sum `which` of `width` over the chunks of each tensor, in chunk
 * order. */
void vp_stage_shard_add(const struct vp_stage *stage, int width, int which,
                        double *sums_out, int stride);

/* Starts to gather the newest weights. They must not be read before
 * vp_stage_shard_end(). */
void vp_stage_shard_gather(struct vp_stage *stage);
enum vp_status vp_stage_shard_end(struct vp_stage *stage,
                                  struct vp_limit limit);

/* Cuts [at, at + n) down to its elements in the own shard. Returns their
 * address in the array; NULL: there are none. */
void *vp_stage_shard_own(const struct vp_stage *stage,
                         enum vp_shard_array array, int64_t *at, int64_t *n);
/* Collects elements [at, at + n) of an array at `out`. All replicas take part:
 * those that are not among the peers call vp_stage_shard_give(), and then this
 * one must be replica 0. */
enum vp_status vp_stage_shard_fetch(struct vp_stage *stage,
                                    const struct vp_peers *peers,
                                    enum vp_shard_array array, int64_t at,
                                    int64_t n, void *out);
enum vp_status vp_stage_shard_give(struct vp_stage *stage,
                                   enum vp_shard_array array, int64_t at,
                                   int64_t n);
#endif
