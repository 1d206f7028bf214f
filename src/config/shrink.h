/* A smaller configuration, to restart a job without the hosts that were
 * lost. */
#ifndef VP_CONFIG_SHRINK_H
#define VP_CONFIG_SHRINK_H

#include "config/config.h"

/* Returns true if the host was lost. */
typedef bool (*vp_lost_fn)(void *ctx, const char *host);

/* Writes the configuration to `path` without the hosts that were lost: one
 * stage per rank that is left, or per tensor-parallel group, with the partition
 * that `stages: N` gives. *n_out is the number of ranks; refused if none is
 * left. */
enum vp_status vp_shrink(const struct vp_config *config, vp_lost_fn lost,
                         void *ctx, const char *path, int *n_out,
                         struct vp_err *err);

#endif
