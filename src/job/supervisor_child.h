/* The supervisor of ranks that the user started by mpirun or srun. It runs in a
 * child of the first process and outlives that process. */
#ifndef VP_JOB_SUPERVISOR_CHILD_H
#define VP_JOB_SUPERVISOR_CHILD_H

#include "config/config.h"
#include "job/supervisor.h"

/* Called in the first process before it forks. Starts to listen for all
 * ranks. */
enum vp_status vp_supervisor_child_open(const struct vp_config *config,
                                        struct vp_supervisor **out,
                                        struct vp_err *err);
/* Called in the child. Supervises the job until it has ended and all ranks are
 * gone. Calls `report` with up to one screen of text if the job fails. Ignores
 * signals, which are meant for the ranks. Takes ownership of `supervisor`. */
void vp_supervisor_child_run(struct vp_supervisor *supervisor,
                             void (*report)(const char *screen));

#endif
