/* Calls in which the members of a tensor-parallel group meet. Each one has steps,
 * kernels on this device, and a meeting after every step but the last: then every
 * member has the bytes of all, in member order, in its device memory.
 *
 *   step 0 | meeting 0 | step 1 [| meeting 1 | step 2]
 *
 * Where the members' devices reach each other, a meeting is work of the stream. Else
 * it goes through memory of the host, and the host waits: a list is cut there. */
#ifndef VP_BACKEND_CUDA_GROUP_MEETING_H
#define VP_BACKEND_CUDA_GROUP_MEETING_H

#include "backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the number of meetings of a call in this launch, 0 where the rank is
 * alone. */
int vp_cuda_call_meetings(const struct vp_graph *graph,
                          const struct vp_call *call,
                          const struct vp_launch *launch);
/* Returns true if the host waits in meetings of these members; NULL: there are
 * none. */
bool vp_cuda_meets_on_host(const struct vp_members *members);

/* Returns true if step `step` of such a call launches anything. */
bool vp_cuda_step_works(enum vp_op_kind kind, int step);
/* Launches the kernels of a step. */
enum vp_status vp_cuda_run_step(const struct vp_cuda_call *call, int step);
/* Holds meeting number `meeting`, after that step. */
enum vp_status vp_cuda_meet(const struct vp_cuda_call *call, int meeting);

/* Whole calls, with all steps and meetings; of a rank that is alone, too. */
enum vp_status vp_cuda_group_sum_f(const struct vp_cuda_call *call);
enum vp_status vp_cuda_group_copy_b(const struct vp_cuda_call *call);
enum vp_status vp_cuda_loss_f(const struct vp_cuda_call *call);

#ifdef __cplusplus
}
#endif
#endif
