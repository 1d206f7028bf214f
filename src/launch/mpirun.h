/* The command that starts the ranks of a job on their hosts: Open MPI's mpirun.
 * Private to launch. */
#ifndef VP_LAUNCH_MPIRUN_H
#define VP_LAUNCH_MPIRUN_H

#include "launch/config.h"
#include "launch/words.h"

/* `rank`: a rank's program and arguments. Rank i of MPI is rank number i of the
 * configuration; machinefile is in `folder`. Wraps the command of a rank where
 * a container is asked for. Nothing goes through a shell. */
enum vp_status vp_mpirun_make(const struct vp_config *config,
                              const char *folder, const struct vp_words *rank,
                              struct vp_words *out, struct vp_err *err);

#endif
