/* Transports of boundary messages and of gradient sums, as planned. */
#ifndef VP_CONFIG_EDGES_H
#define VP_CONFIG_EDGES_H

#include "config/config.h"

/* Fills config->edges, replica_edges and tie_edge; NULL and VP_EDGE_LOCAL if
 * all ranks are threads of one process. This is a forecast: a run whose GPUs
 * cannot reach each other sends through the host instead, with a notice. */
enum vp_status vp_edges_resolve(struct vp_config *config, struct vp_err *err);

#endif
