/* Tensor-parallel groups, the ranks that share each operator of a stage: sums
 * and exchanges of their programs, norms and gradients. */
#ifndef VP_RUNTIME_RANK_MEMBERS_H
#define VP_RUNTIME_RANK_MEMBERS_H

#include "runtime/rank/rank_state.h"

/* Creates the links of all groups; none if groups have one member. Called by
 * all processes. The lengths of sums come from the models. */
enum vp_status vp_members_connect(struct vp_pipeline *pipeline,
                                  struct vp_rank *ranks);
void vp_members_release(struct vp_pipeline *pipeline);

/* Sums `blocks` [n] over the members, in member order. All members get the
 * sums. */
enum vp_status vp_members_add(struct vp_rank *rank, double *blocks, int n);

/* Sums the gradients of which each member has a part, in member order: those of
 * parameters that all members have and use on slices of rows. All members get
 * the sums. Call it after the gradients of all minibatches and replicas were
 * added. */
enum vp_status vp_members_add_grads(struct vp_rank *rank);

#endif
