/* Sets of operators that are recomputed: from a ratio, checked, counted in
 * lines. */
#include "graph/recompute.h"

#include "graph/opdef.h"

bool vp_recompute_runs(const struct vp_graph *graph, int first_block,
                       const uint64_t *sets, bool keep_gathered,
                       const struct vp_op *op)
{
    const struct vp_op *parts;

    if (vp_op_defs[op->kind].made_again && !keep_gathered)
        return true;
    if (!vp_recompute_has(graph, first_block, sets, op))
        return false;
    if (op->kind != VP_OP_REDUCE_SCATTER)
        return true;
    parts = &graph->ops[graph->values[op->in[0]].producer];
    return parts->block >= first_block &&
           vp_recompute_has(graph, first_block, sets, parts);
}

bool vp_recompute_any(const uint64_t *sets, int n_blocks)
{
    for (int b = 0; b < n_blocks; b++)
        if (sets[b])
            return true;
    return false;
}

enum vp_status vp_recompute_check(const struct vp_graph *graph, int first_block,
                                  int n_blocks, const uint64_t *sets,
                                  struct vp_err *err)
{
    for (int b = 0; b < n_blocks; b++) {
        int n_ops = graph->blocks[first_block + b].n_ops;

        if (n_ops < VP_MAX_BLOCK_OPS && sets[b] >> n_ops)
            return vp_err_set(err, VP_ERR_INVALID,
                              "recomputation of block %d: the set 0x%llx has "
                              "bits above %d; the block has %d operators",
                              first_block + b, (unsigned long long)sets[b],
                              n_ops - 1, n_ops);
    }
    return VP_OK;
}

int vp_recompute_n_lines(const struct vp_graph *graph, int first_block,
                         int n_blocks)
{
    const struct vp_block *first = &graph->blocks[first_block];
    const struct vp_block *last = first + n_blocks - 1;

    return last->first_line + last->n_lines - first->first_line;
}

int vp_recompute_tail_lines(const struct vp_graph *graph, int first_block,
                            int n_blocks, double ratio)
{
    return (int)(ratio * vp_recompute_n_lines(graph, first_block, n_blocks));
}

enum vp_status vp_recompute_tail(const struct vp_graph *graph, int first_block,
                                 int n_blocks, double ratio, uint64_t *sets_out,
                                 struct vp_err *err)
{
    const struct vp_block *blocks = &graph->blocks[first_block];
    int first_line;

    if (!(ratio >= 0.0 && ratio <= 1.0))
        return vp_err_refuse(err, "recompute_ratio",
                             "recompute_ratio %g is outside 0..1", ratio);
    first_line = blocks->first_line +
                 vp_recompute_n_lines(graph, first_block, n_blocks) -
                 vp_recompute_tail_lines(graph, first_block, n_blocks, ratio);
    for (int b = 0; b < n_blocks; b++) {
        sets_out[b] = 0;
        for (int i = 0; i < blocks[b].n_ops; i++)
            if (graph->ops[blocks[b].first_op + i].line >= first_line)
                sets_out[b] |= UINT64_C(1) << i;
    }
    return VP_OK;
}

int vp_recompute_count_lines(const struct vp_graph *graph, int first_block,
                             int n_blocks, const uint64_t *sets)
{
    const struct vp_block *first = &graph->blocks[first_block];
    const struct vp_block *last = first + n_blocks - 1;
    int n = 0, line = -1; /* the last line that counted */

    for (int i = first->first_op; i < last->first_op + last->n_ops; i++) {
        const struct vp_op *op = &graph->ops[i];

        if (op->line == line || !vp_recompute_has(graph, first_block, sets, op))
            continue;
        line = op->line;
        n++;
    }
    return n;
}

void vp_recompute_keep_results(const struct vp_graph *graph, int first_block,
                               int n_blocks, uint64_t *sets)
{
    const struct vp_block *first = &graph->blocks[first_block];
    const struct vp_block *last = first + n_blocks - 1;

    for (int i = first->first_op; i < last->first_op + last->n_ops; i++)
        for (int j = 0; j < VP_MAX_IN; j++) {
            vp_val v = graph->ops[i].in[j];
            int producer = v == VP_NONE ? VP_NONE : graph->values[v].producer;
            int block;

            if (producer == VP_NONE || producer < first->first_op)
                continue;
            block = graph->ops[producer].block;
            if (block != graph->ops[i].block)
                sets[block - first_block] &= ~(
                    UINT64_C(1) << (producer - graph->blocks[block].first_op));
        }
}
