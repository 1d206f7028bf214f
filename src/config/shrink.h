/* A configuration for the hosts that are left. */
#ifndef VP_CONFIG_SHRINK_H
#define VP_CONFIG_SHRINK_H

#include "config/config.h"

typedef bool (*vp_lost_fn)(void *ctx, const char *host);

/* Writes the configuration to `path` without the hosts that `lost` names: one
 * stage per rank that is left, or per tensor-parallel group, cut as `stages: N` cuts
 * them. `*n_out` ranks; refused if none is left. */
enum vp_status vp_shrink(const struct vp_config *config, vp_lost_fn lost,
                         void *ctx, const char *path, int *n_out,
                         struct vp_err *err);

#endif
