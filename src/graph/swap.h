/* Which operators of a stage are swapped: a set per block, as in recompute.h. */
#ifndef VP_GRAPH_SWAP_H
#define VP_GRAPH_SWAP_H

#include "graph/program.h"

/* Bytes that each operator of the stage leaves for R, B and W and that may be
 * swapped: an entry per operator, from the stage's first on. Of `spec`, what is
 * recomputed and `keep_all` count. */
enum vp_status vp_swap_bytes(const struct vp_graph *graph,
                             const struct vp_stage_spec *spec,
                             int64_t *bytes_out);

/* What `ratio` means for the stage of `spec`, whose `recompute` and `keep_all`
 * count: its first operators, as many as save no more than that share of the
 * bytes that may be swapped. Those are read last. */
enum vp_status vp_swap_head(const struct vp_graph *graph,
                            const struct vp_stage_spec *spec, double ratio,
                            uint64_t *sets_out);

#endif
