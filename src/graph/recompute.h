/* The operators of a stage that are recomputed, as one set per block.
 *
 * Bit i of a block's set stands for operator i of the block. If it is set, the
 * results of the operator are not kept from F to B: R computes those that
 * backward reads again. An array of sets has an entry for each block of a
 * stage, the first one first. Any set is allowed; training gives the same bits
 * with all of them. */
#ifndef VP_GRAPH_RECOMPUTE_H
#define VP_GRAPH_RECOMPUTE_H

#include "graph/graph.h"

/* Returns true if `op` is in its block's set; sets[0] is that of `first_block`.
 * `sets` may be NULL: nothing is recomputed. */
static inline bool vp_recompute_has(const struct vp_graph *graph,
                                    int first_block, const uint64_t *sets,
                                    const struct vp_op *op)
{
    int bit = op->id - graph->blocks[op->block].first_op;

    return sets && (sets[op->block - first_block] >> bit & 1);
}

/* Returns true if the results of `op` are not kept: if it is in the sets, with
 * exceptions for tensor-parallel groups. A reduce_scatter is recomputed only if
 * the producer of its input is, too, since that input is never kept. An
 * all_gather always runs again, unless `keep_gathered`. */
bool vp_recompute_runs(const struct vp_graph *graph, int first_block,
                       const uint64_t *sets, bool keep_gathered,
                       const struct vp_op *op);

/* Returns true if any of the sets is not empty. */
bool vp_recompute_any(const uint64_t *sets, int n_blocks);

/* Refuses sets with bits beyond the operators of their block. */
enum vp_status vp_recompute_check(const struct vp_graph *graph, int first_block,
                                  int n_blocks, const uint64_t *sets,
                                  struct vp_err *err);

/* Writes the sets that `ratio` stands for in blocks [first_block, first_block +
 * n_blocks): the operators of the last int(ratio x lines) lines, in the
 * original's line numbers. Refuses a ratio outside 0..1. */
enum vp_status vp_recompute_tail(const struct vp_graph *graph, int first_block,
                                 int n_blocks, double ratio, uint64_t *sets_out,
                                 struct vp_err *err);

/* Removes operators from the sets whose results other blocks of the stage read,
 * so that recomputation of each block begins at values that are kept. */
void vp_recompute_keep_results(const struct vp_graph *graph, int first_block,
                               int n_blocks, uint64_t *sets);

/* Return the number of lines of the blocks, and of those that `ratio`
 * recomputes. The second does not follow from the sets: some lines have no
 * operator (dropout of probability 0). */
int vp_recompute_n_lines(const struct vp_graph *graph, int first_block,
                         int n_blocks);
int vp_recompute_tail_lines(const struct vp_graph *graph, int first_block,
                            int n_blocks, double ratio);
/* Returns the number of lines with an operator that is recomputed. */
int vp_recompute_count_lines(const struct vp_graph *graph, int first_block,
                             int n_blocks, const uint64_t *sets);

#endif
