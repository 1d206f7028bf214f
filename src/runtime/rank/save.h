/* Saving of a rank's stages during training. */
#ifndef VP_RUNTIME_RANK_SAVE_H
#define VP_RUNTIME_RANK_SAVE_H

#include "runtime/rank/rank_state.h"

/* Returns the number of steps between two steps that end a round of all stages;
 * 1 in a synchronous schedule, where a step is a group. */
int64_t vp_save_period(const struct vp_schedule *schedule, bool sync);
/* Returns true if an activity that is due every `every` steps (0: never) is due
 * after `step`. `begin`: the step before the first one of the segment. */
bool vp_save_is_due(int64_t begin, int64_t period, int64_t every, int64_t step);
/* Returns true if the state is to be saved after this step. */
bool vp_save_is_due_after(const struct vp_train_config *config,
                          const struct vp_schedule *schedule, bool sync,
                          int64_t step);
/* Saves a stage, if that is due, after the update that ends `step`. */
enum vp_status vp_rank_save(struct vp_rank *rank, struct vp_rank_stage *rs,
                            int64_t step);

#endif
