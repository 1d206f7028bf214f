#include "graph/swap.h"

#include <stdlib.h>
#include <string.h>

enum vp_status vp_swap_head(const struct vp_graph *graph,
                            const struct vp_stage_spec *spec, double ratio,
                            uint64_t *sets_out)
{
    const struct vp_block *blocks = &graph->blocks[spec->first_block];
    const struct vp_block *last = &blocks[spec->n_blocks - 1];
    int n_ops = last->first_op + last->n_ops - blocks->first_op;
    int64_t *bytes = calloc((size_t)n_ops, sizeof(*bytes)), all = 0, sum = 0;
    enum vp_status st = bytes ? vp_program_saved_bytes(graph, spec, bytes)
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
