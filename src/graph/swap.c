/* Bytes that can be swapped per operator, and the sets for a ratio of them. */
#include "graph/swap.h"

#include "graph/internal.h"

#include <stdlib.h>
#include <string.h>

enum vp_status vp_swap_bytes(const struct vp_graph *graph,
                             const struct vp_stage_spec *spec,
                             int64_t *bytes_out)
{
    struct vp_lowering lowering = { .graph = graph, .spec = spec };
    bool *marks = vp_lowering_work(&lowering, (size_t)graph->n_values);
    enum vp_status st = marks ? VP_OK : VP_ERR_NOMEM;

    vp_lowering_find_range(&lowering);
    memset(bytes_out, 0,
           (size_t)(lowering.end_op - lowering.first_op) * sizeof(*bytes_out));
    if (st == VP_OK)
        st = vp_lowering_find_kept(&lowering, marks);
    for (vp_val v = 0; st == VP_OK && v < graph->n_values; v++) {
        int producer = graph->values[v].producer;

        if (producer >= lowering.first_op && producer < lowering.end_op &&
            !vp_graph_is_output(graph, v) && marks[v] &&
            !vp_lowering_left_by_r(&lowering, v))
            bytes_out[producer - lowering.first_op] += (int64_t)vp_align_up(
                (size_t)vp_value_bytes(graph, v), VP_TENSOR_ALIGN);
    }
    vp_arena_release(&lowering.arena);
    return st;
}

enum vp_status vp_swap_head(const struct vp_graph *graph,
                            const struct vp_stage_spec *spec, double ratio,
                            uint64_t *sets_out)
{
    const struct vp_block *blocks = &graph->blocks[spec->first_block];
    const struct vp_block *last = &blocks[spec->n_blocks - 1];
    int n_ops = last->first_op + last->n_ops - blocks->first_op;
    int64_t *bytes = calloc((size_t)n_ops, sizeof(*bytes)), all = 0, sum = 0;
    enum vp_status st = bytes ? vp_swap_bytes(graph, spec, bytes)
                              : VP_ERR_NOMEM;
    int i = 0;

    memset(sets_out, 0, (size_t)spec->n_blocks * sizeof(*sets_out));
    for (int k = 0; st == VP_OK && k < n_ops; k++)
        all += bytes[k];
    for (int b = 0; st == VP_OK && b < spec->n_blocks; b++)
        for (int k = 0; k < blocks[b].n_ops; k++, i++) {
            sum += bytes[i];
            if ((double)sum <= ratio * (double)all)
                sets_out[b] |= UINT64_C(1) << k;
        }
    free(bytes);
    return st;
}
