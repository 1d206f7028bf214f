/* When a rank saves its stages while it trains. */
#ifndef VP_RUNTIME_RANK_SAVE_H
#define VP_RUNTIME_RANK_SAVE_H

#include "runtime/rank/rank_state.h"

/* Steps between two that end a round of all stages: 1 in a synchronous schedule,
 * where a step is a group. */
int64_t vp_save_period(const struct vp_schedule *schedule, bool sync);
/* Is what happens every `every` steps (0: never) due after `step`? `begin`: the
 * step before the first one of the segment. */
bool vp_save_is_due(int64_t begin, int64_t period, int64_t every, int64_t step);
/* Is the state to be saved after this step? */
bool vp_save_is_due_after(const struct vp_train_config *config,
                          const struct vp_schedule *schedule, bool sync,
                          int64_t step);
/* Saves a stage that has just made the update that ends `step`, if that is
 * due. */
enum vp_status vp_rank_save(struct vp_rank *rank, struct vp_rank_stage *rs,
                            int64_t step);

#endif
