/* Layers with their parameters, as the builders use them. */
#include "model/build.h"

static vp_par packed_weight(struct vp_graph *graph,
                            const struct vp_dense *dense,
                            const char *const *names, int n_names)
{
    vp_par weight = vp_graph_param(
        graph, vp_graph_name(graph, "%s.weight", names[0]), dense->out,
        dense->in, VP_INIT_NORMAL, dense->std);

    for (int i = 1; i < n_names; i++)
        vp_graph_part(graph, weight,
                      vp_graph_name(graph, "%s.weight", names[i]), dense->out);
    if (weight != VP_NONE)
        graph->params[weight].stored_transposed = dense->stored_transposed;
    return weight;
}

/* One row for each name. */
static vp_par packed_bias(struct vp_graph *graph, const struct vp_dense *dense,
                          const char *const *names, int n_names)
{
    vp_par bias = vp_graph_param(graph,
                                 vp_graph_name(graph, "%s.bias", names[0]), 1,
                                 dense->out, VP_INIT_ZERO, 0.0f);

    for (int i = 1; i < n_names; i++)
        vp_graph_part(graph, bias, vp_graph_name(graph, "%s.bias", names[i]),
                      1);
    return bias;
}

int vp_build_heads(const struct vp_graph *graph, int64_t heads)
{
    return (int)(heads / graph->n_members);
}

vp_par vp_build_table(struct vp_graph *graph, const char *name, int64_t rows,
                      int64_t cols, float std)
{
    vp_par table = vp_graph_param(graph, name, rows, cols, VP_INIT_NORMAL, std);

    vp_graph_slice(graph, table, VP_SLICE_ROWS, 1, true);
    return table;
}

vp_par vp_build_output_bias(struct vp_graph *graph, const char *name,
                            int64_t cols)
{
    vp_par bias = vp_graph_param(graph, name, 1, cols, VP_INIT_ZERO, 0.0f);

    vp_graph_slice(graph, bias, VP_SLICE_COLS, 1, true);
    return bias;
}

vp_val vp_build_linear(struct vp_graph *graph, vp_val x,
                       const struct vp_dense *dense, const char *const *names,
                       int n_names)
{
    vp_par weight = packed_weight(graph, dense, names, n_names);
    int n_sections = dense->n_sections > 0 ? dense->n_sections : 1;
    bool sums = dense->slice == VP_SLICE_COLS && graph->n_members > 1;
    vp_par bias = VP_NONE;
    vp_val y;

    if (dense->slice == VP_SLICE_ROWS)
        x = vp_all_gather(graph, x);
    if (dense->bias)
        bias = packed_bias(graph, dense, names, n_names);
    if (dense->slice != VP_SLICE_NONE)
        vp_graph_slice(graph, weight, dense->slice, n_sections, false);
    if (dense->slice == VP_SLICE_ROWS)
        vp_graph_slice(graph, bias, VP_SLICE_COLS, n_sections, false);
    y = vp_linear(graph, x, weight, sums ? VP_NONE : bias, dense->act);
    return sums ? vp_group_sum(graph, y, bias) : y;
}

vp_val vp_build_layernorm(struct vp_graph *graph, vp_val x, const char *name,
                          int64_t cols, float eps)
{
    vp_par gamma = vp_graph_param(graph,
                                  vp_graph_name(graph, "%s.weight", name), 1,
                                  cols, VP_INIT_ONE, 0.0f);
    vp_par beta = vp_graph_param(graph, vp_graph_name(graph, "%s.bias", name),
                                 1, cols, VP_INIT_ZERO, 0.0f);

    return vp_layernorm(graph, x, gamma, beta, eps);
}

void vp_build_lines(struct vp_graph *graph, int n)
{
    for (int i = 0; i < n; i++)
        vp_graph_line(graph);
}

vp_val vp_build_labels(struct vp_graph *graph, const struct vp_dims *dims)
{
    if (!(graph->outputs & VP_OUTPUT_LOSS))
        return VP_NONE;
    return vp_graph_input(graph, VP_ROLE_LABELS, "labels",
                          vp_dims_role(dims, VP_ROLE_LABELS));
}

vp_val vp_build_rows(struct vp_graph *graph, vp_val x,
                     const struct vp_dims *dims)
{
    if (dims->n_labels == 0)
        return x;
    x = vp_gather(graph, x,
                  vp_graph_input(graph, VP_ROLE_LABEL_ROWS, "label_rows",
                                 dims->n_labels));
    return vp_group_sum(graph, x, VP_NONE);
}

void vp_build_end(struct vp_graph *graph, vp_val logits, vp_val labels,
                  float smoothing)
{
    if (graph->outputs & VP_OUTPUT_LOSS)
        vp_cross_entropy(graph, logits, labels, VP_NONE, smoothing);
    else if (graph->outputs & VP_OUTPUT_ARGMAX)
        vp_argmax(graph, logits);
}
