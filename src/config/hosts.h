/* The hosts of a job, by key `machines`. Ranks are the user's numbers. */
#ifndef VP_CONFIG_HOSTS_H
#define VP_CONFIG_HOSTS_H

#include "config/config.h"

/* Returns the host of rank `i` as the user wrote it; NULL without machines. */
const char *vp_host_of(const struct vp_config *config, int i);
/* Returns the number of consecutive ranks on one host, from rank `i` on. */
int vp_hosts_run(const struct vp_config *config, int i);
/* Returns true if all machines are this one, also without machines. */
bool vp_hosts_are_here(const struct vp_config *config);
/* Returns true if ranks may run on other hosts: mpirun and Slurm choose the
 * hosts, unless machines names this one for all ranks. */
bool vp_hosts_may_be_elsewhere(const struct vp_config *config);
/* Returns the largest number of ranks on one host. */
int vp_hosts_crowd(const struct vp_config *config);

/* Writes the file machinefile in `folder`, for mpirun: each host once, with its
 * number of ranks if that is above 1. */
enum vp_status vp_hosts_write(const struct vp_config *config,
                              const char *folder, struct vp_err *err);

#endif
