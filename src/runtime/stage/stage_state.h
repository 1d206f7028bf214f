/* The state of a stage, array by array, for files. */
#ifndef VP_RUNTIME_STAGE_STAGE_STATE_H
#define VP_RUNTIME_STAGE_STAGE_STATE_H

#include "runtime/stage/stage_shard.h"
#include "runtime/state.h"

/* Floats that members of a group exchange at once when they save. */
enum { VP_SAVE_PIECE = 1 << 14 };

/* Arrays of the stage that it owns: not copies of tied weights. */
int vp_stage_n_items(const struct vp_stage *stage);
/* Fills `items`; returns their number. */
int vp_stage_list_items(const struct vp_stage *stage,
                        struct vp_state_item *items);

/* Copies all items, the first of which has the number `item`: whole tensors. Where
 * replicas own shards of the state, replica 0 saves, the peers are as in
 * vp_stage_shard_fetch(), and all other replicas call vp_stage_give(). All members
 * of a tensor-parallel group come here, each with its slices, and with the replicas
 * of its own number as peers; where members are processes of their own the first of
 * them gets the slices of the others. */
enum vp_status vp_stage_save(struct vp_stage *stage,
                             const struct vp_peers *peers, int item,
                             const struct vp_saver *saver);
enum vp_status vp_stage_give(struct vp_stage *stage);
/* Copies one item, which is named as vp_stage_list_items() does. Returns
 * VP_ERR_END if the stage does not own it. */
enum vp_status vp_stage_read_item(struct vp_stage *stage,
                                  const struct vp_state_item *item, float *out);
/* Returns true if the stage owns the array of that name. */
bool vp_stage_owns(const struct vp_stage *stage, const char *name);
/* All items that vp_stage_restore() asks for, in its order, copies of tied
 * weights included: calls `fn` until it fails. `past` older versions are there. */
typedef enum vp_status (*vp_item_fn)(void *ctx,
                                     const struct vp_state_item *item);
enum vp_status vp_stage_each_restored(const struct vp_stage *stage, int past,
                                      vp_item_fn fn, void *ctx);
/* Loads stage `index` of the pipeline, which was allocated. */
enum vp_status vp_stage_restore(struct vp_stage *stage, int index,
                                const struct vp_loader *loader,
                                struct vp_err *err);

#endif
