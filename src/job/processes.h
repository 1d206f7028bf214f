/* Runs of several processes: finds out which process this is, and joins the
 * others. */
#ifndef VP_JOB_PROCESSES_H
#define VP_JOB_PROCESSES_H

#include "comm/comm.h"
#include "config/config.h"

/* Returns the number and index of this process, from the environment variables
 * of mpirun (Open MPI, MPICH) or srun. Returns n = 1 for a process that is
 * alone. */
struct vp_processes vp_processes_find(void);

/* Returns true if all processes are on this machine, outside of containers, so
 * that they see the same files. Returns false if the environment does not say
 * so. */
bool vp_processes_are_here(void);

/* Returns the name of the transport between the processes of this run. */
const char *vp_processes_transport(const struct vp_config *config);

/* Fails if the transport's plugin cannot be loaded here. Does not check if
 * ranks run on other hosts or in a container, where they load it from another
 * place. */
enum vp_status vp_processes_find_transport(const struct vp_config *config,
                                           struct vp_err *err);

/* Joins the other processes. Writes NULL for a process that is alone, whose
 * ranks are threads. There must be one process per rank; process i is rank i of
 * the user's numbering. Free with vp_world_free(). */
enum vp_status vp_processes_join(const struct vp_processes *self,
                                 const struct vp_config *config,
                                 struct vp_world **out, struct vp_err *err);

#endif
