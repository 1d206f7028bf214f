/* The operators of a stage whose results are swapped to host memory, as one set
 * per block, like those of recompute.h. */
#ifndef VP_GRAPH_SWAP_H
#define VP_GRAPH_SWAP_H

#include "graph/program.h"

/* Writes the bytes of results that each operator of the stage keeps for R, B
 * and W and that may be swapped: an entry per operator, the first of the stage
 * first. Reads the blocks, the recomputed sets, `keep_all` and `keep_gathered`
 * of `spec`. */
enum vp_status vp_swap_bytes(const struct vp_graph *graph,
                             const struct vp_stage_spec *spec,
                             int64_t *bytes_out);

/* Writes the sets that `ratio` stands for in the stage of `spec`: the first
 * operators, whose results backward reads last, as long as their bytes add up
 * to at most `ratio` of all that vp_swap_bytes() finds. */
enum vp_status vp_swap_head(const struct vp_graph *graph,
                            const struct vp_stage_spec *spec, double ratio,
                            uint64_t *sets_out);

#endif
