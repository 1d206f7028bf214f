/* Tensor-parallel groups: the ranks that share each operator of a stage. Sums and
 * exchanges of their programs, and what else the members tell each other. */
#ifndef VP_RUNTIME_RANK_MEMBERS_H
#define VP_RUNTIME_RANK_MEMBERS_H

#include "runtime/rank/rank_state.h"

/* Makes the links of all groups; nothing if there is one member each. All processes
 * come here. `lengths` of sums are taken from the models. */
enum vp_status vp_members_connect(struct vp_pipeline *pipeline,
                                  struct vp_rank *ranks);
void vp_members_release(struct vp_pipeline *pipeline);

/* Adds up what the members know of each block: all get the sums, in member order. */
enum vp_status vp_members_add(struct vp_rank *rank, double *blocks, int n);

/* Adds up the gradients that members have parts of, in member order: those of what all
 * have and use on slices of rows. All members then have the sums. After the gradients
 * of all minibatches were added, and those of replicas. */
enum vp_status vp_members_add_grads(struct vp_rank *rank);

#endif
