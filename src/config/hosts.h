/* The hosts of a job. */
#ifndef VP_CONFIG_HOSTS_H
#define VP_CONFIG_HOSTS_H

#include "config/config.h"

/* Where rank number `i` runs, as the user calls it; NULL: nothing was said. */
const char *vp_host_of(const struct vp_config *config, int i);
/* Ranks from number `i` on that follow each other on one host. */
int vp_hosts_run(const struct vp_config *config, int i);
bool vp_hosts_are_here(const struct vp_config *config);
/* Whether ranks that one process plans may run on other machines: mpirun and
 * Slurm put them where they like, unless machines says that all are here. */
bool vp_hosts_may_be_elsewhere(const struct vp_config *config);
/* The most ranks on one host. */
int vp_hosts_crowd(const struct vp_config *config);

/* machinefile in `folder`: the hosts, once each, as mpirun reads them: with the
 * number of ranks where that is not 1. */
enum vp_status vp_hosts_write(const struct vp_config *config,
                              const char *folder, struct vp_err *err);

#endif
