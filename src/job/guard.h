/* A supervisor for ranks that somebody else started, with mpirun or srun: it
 * lives in a child of the first process, and outlives it. */
#ifndef VP_JOB_GUARD_H
#define VP_JOB_GUARD_H

#include "config/config.h"
#include "job/supervisor.h"

/* In the first process, before the child is made: listens for all ranks. */
enum vp_status vp_guard_open(const struct vp_config *config,
                             struct vp_supervisor **out, struct vp_err *err);
/* In the child: looks after the job until it is over and all ranks are gone.
 * `report` gets one screen about the culprit, if there is one. Signals are for
 * the ranks. Takes ownership. */
void vp_guard_run(struct vp_supervisor *supervisor,
                  void (*report)(const char *screen));

#endif
