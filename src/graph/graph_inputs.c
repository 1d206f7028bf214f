/* What operators can read from the inputs of a model. */
#include "graph/graph.h"

/* Narrows the range by input `i` of an operator. Returns false if the operator
 * takes any number. */
static bool narrow(const struct vp_graph *graph, const struct vp_op *op, int i,
                   struct vp_input_range *range)
{
    int64_t limit;
    int32_t first = 0;

    switch (op->kind) {
    case VP_OP_EMBED: /* ids of the table, types of the third one */
        limit = graph->params[op->par[i == 0 ? 0 : 2]].rows;
        break;
    case VP_OP_GATHER:
        limit = graph->values[op->in[0]].whole_rows;
        first = -1;
        break;
    case VP_OP_CROSS_ENTROPY: /* labels; weights are 0 or 1 */
        limit = i == 1 ? graph->values[op->in[0]].cols : 2;
        first = i == 1 ? -1 : 0;
        break;
    default:
        return false;
    }
    if (limit < range->limit)
        range->limit = limit;
    if (first > range->first)
        range->first = first;
    return true;
}

bool vp_graph_input_range(const struct vp_graph *graph, enum vp_role role,
                          struct vp_input_range *out)
{
    struct vp_input_range range = { .first = -1, .limit = INT64_MAX };
    bool found = false;

    for (int k = 0; k < graph->n_ops; k++) {
        const struct vp_op *op = &graph->ops[k];

        for (int i = 0; i < VP_MAX_IN; i++)
            if (op->in[i] != VP_NONE && graph->values[op->in[i]].role == role)
                found |= narrow(graph, op, i, &range);
    }
    if (found)
        *out = range;
    return found;
}
