/* How messages between neighbouring stages and gradients will travel. */
#ifndef VP_CONFIG_EDGES_H
#define VP_CONFIG_EDGES_H

#include "config/config.h"

/* Fills config->edges, replica_edges and tie_edge; NULL and VP_EDGE_LOCAL where
 * all ranks are threads of one process. A run
 * finds out for itself, and may find a GPU that cannot reach another: then
 * messages go through the host, with a notice. */
enum vp_status vp_edges_resolve(struct vp_config *config, struct vp_err *err);

#endif
