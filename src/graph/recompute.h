/* Which operators of a stage are recomputed: a set per block.
 *
 * Bit i of a block's set is operator i of the block. Its results are not kept
 * from F to B: R computes again those that backward reads. An array of sets
 * begins with the first block of a stage and has an entry per block. Any set is
 * allowed, and no bit of the training depends on it. */
#ifndef VP_GRAPH_RECOMPUTE_H
#define VP_GRAPH_RECOMPUTE_H

#include "graph/graph.h"

/* True if `op` is in its block's set; `sets` begins with `first_block`. NULL:
 * nothing is recomputed. */
static inline bool vp_recompute_has(const struct vp_graph *graph,
                                    int first_block, const uint64_t *sets,
                                    const struct vp_op *op)
{
    int bit = op->id - graph->blocks[op->block].first_op;

    return sets && (sets[op->block - first_block] >> bit & 1);
}

/* True if the results of `op` are not kept. That is what the sets say, but for
 * operators of a tensor-parallel group: a reduce_scatter runs again only together with
 * what makes its parts, since parts are never kept; an all_gather always does, unless
 * `keep_gathered`. */
bool vp_recompute_runs(const struct vp_graph *graph, int first_block,
                       const uint64_t *sets, bool keep_gathered,
                       const struct vp_op *op);

/* True if a set is not empty. */
bool vp_recompute_any(const uint64_t *sets, int n_blocks);

/* Refuses a bit without an operator. */
enum vp_status vp_recompute_check(const struct vp_graph *graph, int first_block,
                                  int n_blocks, const uint64_t *sets,
                                  struct vp_err *err);

/* What `ratio` means for blocks [first_block, first_block + n_blocks): the last
 * int(ratio x lines) of their lines, as the original numbers them. Refuses a
 * ratio outside 0..1. */
enum vp_status vp_recompute_tail(const struct vp_graph *graph, int first_block,
                                 int n_blocks, double ratio, uint64_t *sets_out,
                                 struct vp_err *err);

/* Takes operators out of the sets whose results other blocks of the stage read:
 * recomputation of a block then begins at values that are kept. */
void vp_recompute_keep_results(const struct vp_graph *graph, int first_block,
                               int n_blocks, uint64_t *sets);

/* Lines of the blocks, all and those of which `ratio` recomputes the operators.
 * Some lines have no operator (dropout of probability 0), so the second number
 * does not follow from the sets. */
int vp_recompute_n_lines(const struct vp_graph *graph, int first_block,
                         int n_blocks);
int vp_recompute_tail_lines(const struct vp_graph *graph, int first_block,
                            int n_blocks, double ratio);
/* Lines with an operator that is recomputed. */
int vp_recompute_count_lines(const struct vp_graph *graph, int first_block,
                             int n_blocks, const uint64_t *sets);

#endif
