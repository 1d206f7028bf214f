/* The supervisor of ranks that vpipe did not start itself, but mpirun or srun:
 * it runs in a child of the first process and outlives that process. */
#ifndef VP_JOB_SUPERVISOR_CHILD_H
#define VP_JOB_SUPERVISOR_CHILD_H

#include "config/config.h"
#include "job/supervisor.h"

/* Called in the first process before it forks: listens for all ranks. */
enum vp_status vp_supervisor_child_open(const struct vp_config *config,
                                        struct vp_supervisor **out,
                                        struct vp_err *err);
/* Called in the child: supervises the job until it has ended and all ranks are
 * gone. Calls `report` with a screen of text if a rank is to blame. Ignores
 * signals, which are for the ranks. Takes ownership. */
void vp_supervisor_child_run(struct vp_supervisor *supervisor,
                             void (*report)(const char *screen));

#endif
