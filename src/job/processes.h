/* Runs of several processes: finding out that this is one, and meeting the
 * others. */
#ifndef VP_JOB_PROCESSES_H
#define VP_JOB_PROCESSES_H

#include "comm/comm.h"
#include "config/config.h"

/* As mpirun (Open MPI, MPICH) or srun started it; alone otherwise. */
struct vp_processes vp_processes_find(void);

/* Are all of them on this machine, outside of containers? Then they see the
 * same files. False where the environment does not tell. */
bool vp_processes_are_here(void);

/* How processes of this run talk. */
const char *vp_processes_transport(const struct vp_config *config);

/* Ranks load the transport from where this program does, unless they run on other
 * hosts or in a container: refuses one that cannot be loaded. */
enum vp_status vp_processes_find_transport(const struct vp_config *config,
                                           struct vp_err *err);

/* The world of a run: NULL in a process that is alone, where all ranks are its
 * threads. There must be one process per rank, and process i is the user's rank
 * i. Free with vp_world_free() when all is said. */
enum vp_status vp_processes_join(const struct vp_processes *self,
                                 const struct vp_config *config,
                                 struct vp_world **out, struct vp_err *err);

#endif
