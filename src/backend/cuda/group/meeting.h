/* Calls in which the members of a tensor-parallel group exchange data. Each
 * call has steps, which are kernels on this device, and a meeting after every
 * step but the last. After a meeting every member has the data of all members,
 * in member order, in its device memory.
 *
 *   step 0 | meeting 0 | step 1 [| meeting 1 | step 2]
 *
 * If the members' devices can reach each other, a meeting is enqueued on the
 * stream like a kernel. Otherwise the data goes through host memory and the
 * host waits, so that a list has to be cut there (exe.c). */
#ifndef VP_BACKEND_CUDA_GROUP_MEETING_H
#define VP_BACKEND_CUDA_GROUP_MEETING_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the number of meetings of a call in this launch; 0 if the rank is not
 * in a group. */
int vp_cuda_call_meetings(const struct vp_graph *graph,
                          const struct vp_call *call,
                          const struct vp_launch *launch);
/* Returns true if meetings of these members go through host memory, where the
 * host waits. `members` may be NULL: no group. */
bool vp_cuda_meets_on_host(const struct vp_members *members);

/* Returns true if step `step` of operator `kind` has a kernel. */
bool vp_cuda_step_works(enum vp_op_kind kind, int step);
/* Launches the kernel of a step, if it has one. */
enum vp_status vp_cuda_run_step(const struct vp_cuda_call *call, int step);
/* Runs meeting number `meeting`, which follows the step of that number. With
 * host memory it waits for the device and the members, up to the time limit of
 * the group. */
enum vp_status vp_cuda_meet(const struct vp_cuda_call *call, int meeting);

/* Whole calls, with all steps and meetings; also for a rank that is not in a
 * group. */
enum vp_status vp_cuda_group_sum_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_group_copy_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_loss_f(const struct vp_cuda_call *call);

#ifdef __cplusplus
}
#endif
#endif
