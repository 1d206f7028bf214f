/* Finds the range of numbers that operators accept in each input of a model. */
#include "graph/graph.h"

/* Narrows the range by input `i` of an operator. Returns false if the operator
 * takes any number. */
static bool narrow(const struct vp_graph *graph, const struct vp_op *op, int i,
                   struct vp_input_range *range)
{
    /* Per input of embed: the parameter that it indexes. */
    static const int table_of[VP_MAX_IN] = { 0, 2, 1 };
    const struct vp_param *table;
    int64_t limit;
    int32_t first = 0;

    switch (op->kind) {
    case VP_OP_EMBED: /* a position of -1 gives a row of zeros */
        table = &graph->params[op->par[table_of[i]]];
        limit = vp_param_whole_count(table) / vp_param_whole(table, 0).cols;
        first = i == 2 ? -1 : 0;
        break;
    case VP_OP_GATHER:
        limit = graph->values[op->in[0]].whole_rows;
        first = -1;
        break;
    case VP_OP_CROSS_ENTROPY: /* labels; weights are 0 or 1 */
        limit = i == 1 ? op->attr.n_ids : 2;
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
