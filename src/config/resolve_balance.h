/* A partition of the model by its FLOPs. */
#ifndef VP_CONFIG_RESOLVE_BALANCE_H
#define VP_CONFIG_RESOLVE_BALANCE_H

#include "config/config.h"

/* Cuts the model into stages of equal work by FLOPs (forward, backward, and the
 * recomputed share); with several chunks, into ranks of equal work. */
enum vp_status vp_resolve_balance(const struct vp_config *config,
                                  const struct vp_graph *graph,
                                  int *partition_out, struct vp_err *err);

#endif
