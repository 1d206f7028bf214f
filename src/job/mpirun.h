/* The command that starts the ranks of a job on their hosts: Open MPI's mpirun. */
#ifndef VP_JOB_MPIRUN_H
#define VP_JOB_MPIRUN_H

#include "base/words.h"
#include "config/config.h"
#include "job/scratch.h"

struct vp_mpirun {
    int version; /* 4 of Open MPI 4.1.4; 0: not known, maybe of another MPI */
    /* Where Open MPI makes its files if all ranks are on this machine, so that
     * they do not outlive the job: */
    struct vp_scratch session; /* of mpirun */
    struct vp_scratch memory;  /* that ranks share */
};

/* VP_ERR_UNSUPPORTED if there is no mpirun in PATH. */
enum vp_status vp_mpirun_find(const struct vp_config *config,
                              struct vp_err *err);
/* Asks the mpirun in PATH for its version, makes the folders, and names them to
 * it by variables of the environment, where the user has not set these: the
 * command itself can be repeated when they are gone. */
enum vp_status vp_mpirun_open(const struct vp_config *config,
                              struct vp_mpirun *out, struct vp_err *err);
/* When it has ended: removes the folders and their variables. Nothing to do for
 * one that is all zero. */
void vp_mpirun_close(struct vp_mpirun *mpirun);

/* `rank`: a rank's program and arguments. Rank i of MPI is rank number i of the
 * configuration; machinefile is in `folder`. Wraps the command of a rank where
 * a container is asked for. Nothing goes through a shell. Parameters of Open
 * MPI that the environment sets (OMPI_MCA_...) are left to it. */
enum vp_status vp_mpirun_make(const struct vp_mpirun *mpirun,
                              const struct vp_config *config,
                              const char *folder, const struct vp_words *rank,
                              struct vp_words *out, struct vp_err *err);

#endif
