/* The state of stages, for files. */
#ifndef VP_RUNTIME_RANK_STATE_H
#define VP_RUNTIME_RANK_STATE_H

#include "runtime/rank/rank.h"

int vp_stage_n_items(const struct vp_stage *stage);
/* Numbers the items of all stages, in the order of vp_trainer_state(). */
void vp_state_number(struct vp_rank *ranks, int n_ranks, int n_stages);

/* Is the state to be saved after this step? The rule of vp_trainer_is_due(). */
bool vp_state_due(const struct vp_train_config *config,
                  const struct vp_schedule *schedule, bool sync, int64_t step);
/* Saves a stage that has just made the update that ends `step`, if that is
 * due. */
enum vp_status vp_state_save(struct vp_rank *rank, struct vp_rank_stage *rs,
                             int64_t step);
/* Saves all stages of this process, in an idle trainer. */
struct vp_trainer;
enum vp_status vp_state_save_all(struct vp_trainer *trainer,
                                 const struct vp_saver *saver, int64_t step,
                                 struct vp_err *err);
/* Loads a stage that was allocated. */
enum vp_status vp_state_restore(struct vp_rank_stage *rs, struct vp_err *err);

#endif
