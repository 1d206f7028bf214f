/* The command that starts the ranks of a job on their hosts: Open MPI's
 * mpirun. */
#ifndef VP_JOB_MPIRUN_H
#define VP_JOB_MPIRUN_H

#include "base/words.h"
#include "config/config.h"
#include "job/scratch.h"

struct vp_mpirun {
    int version; /* major version of Open MPI; 0: unknown or another MPI */
    /* Folders for Open MPI's files if all ranks are on this machine, so that no
     * files outlive the job: */
    struct vp_scratch session; /* files of mpirun and its ranks */
    struct vp_scratch memory;  /* memory that ranks share */
};

/* Fails with VP_ERR_UNSUPPORTED if there is no mpirun in PATH. */
enum vp_status vp_mpirun_find(const struct vp_config *config,
                              struct vp_err *err);
/* Runs mpirun --version, makes the folders, and passes them to mpirun by
 * environment variables that the user has not set. They are not part of the
 * command line, so that the command can be repeated after the job. */
enum vp_status vp_mpirun_open(const struct vp_config *config,
                              struct vp_mpirun *out, struct vp_err *err);
/* Called after mpirun has exited: removes the folders and unsets their
 * variables. Does nothing if `*mpirun` is all zero. */
void vp_mpirun_close(struct vp_mpirun *mpirun);

/* Appends the mpirun command to `out`, as an argument vector without a shell.
 * `rank`: program and arguments of a rank, which run in a container if the key
 * 'container' is set. Rank i of MPI is rank number i of the configuration.
 * `folder` holds the machinefile. Parameters of Open MPI that the environment
 * sets (OMPI_MCA_...) are not overridden. */
enum vp_status vp_mpirun_make(const struct vp_mpirun *mpirun,
                              const struct vp_config *config,
                              const char *folder, const struct vp_words *rank,
                              struct vp_words *out, struct vp_err *err);

#endif
