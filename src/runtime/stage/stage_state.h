/* The state of a stage, array by array, for checkpoints and moves. */
#ifndef VP_RUNTIME_STAGE_STAGE_STATE_H
#define VP_RUNTIME_STAGE_STAGE_STATE_H

#include "runtime/stage/stage_shard.h"
#include "runtime/state.h"

/* Number of floats that members of a group exchange at once when they save. */
enum { VP_SAVE_PIECE = 1 << 14 };

/* Returns the number of arrays that the stage owns, without copies of tied
 * weights. */
int vp_stage_n_items(const struct vp_stage *stage);
/* Fills `items`. Returns their number. */
int vp_stage_list_items(const struct vp_stage *stage,
                        struct vp_state_item *items);

/* Copies all items, as whole tensors, into buffers of the saver; the first item
 * has the number `item`. If replicas own shards of the state, replica 0 saves,
 * the peers are as in vp_stage_shard_fetch(), and all other replicas call
 * vp_stage_give(). All members of a tensor-parallel group call it, each with
 * its slices and with the replicas of its own member number as peers. If
 * members are separate processes, the first of them gets the slices of the
 * others. */
enum vp_status vp_stage_save(struct vp_stage *stage,
                             const struct vp_peers *peers, int item,
                             const struct vp_saver *saver);
/* For replicas that own shards: sends them to replica 0, in the order in which
 * vp_stage_save() collects them. */
enum vp_status vp_stage_give(struct vp_stage *stage);
/* Copies one item, as listed by vp_stage_list_items(). Returns VP_ERR_END if
 * the stage does not own it. */
enum vp_status vp_stage_read_item(struct vp_stage *stage,
                                  const struct vp_state_item *item, float *out);
/* Returns true if the stage owns an array with this name. */
bool vp_stage_owns(const struct vp_stage *stage, const char *name);
/* Calls `fn` for all items that vp_stage_restore() loads, in its order,
 * including copies of tied weights, until `fn` fails. `past` older versions are
 * available. */
typedef enum vp_status (*vp_item_fn)(void *ctx,
                                     const struct vp_state_item *item);
enum vp_status vp_stage_each_restored(const struct vp_stage *stage, int past,
                                      vp_item_fn fn, void *ctx);
/* Loads the state of stage `index` of the pipeline. The stage must be
 * allocated. */
enum vp_status vp_stage_restore(struct vp_stage *stage, int index,
                                const struct vp_loader *loader,
                                struct vp_err *err);

#endif
