/* Models from operators: checks arguments and calls the builders of
 * src/graph. */
#include "api/internal.h"

#include <math.h>
#include <string.h>

struct vpipe_graph {
    struct vp_graph *graph;
    const struct vp_dims *dims;
    vp_val inputs[VP_ROLE_COUNT]; /* VP_NONE: not used yet */
};

/* ---- Checks -------------------------------------------------------------- */

static bool is_value(struct vpipe_graph *g, int value)
{
    if (value >= 0 && value < g->graph->n_values)
        return true;
    vp_graph_refuse(g->graph,
                    "an operator is given a value that does not exist");
    return false;
}

static bool is_value_or_none(struct vpipe_graph *g, int value)
{
    return value == VPIPE_NONE || is_value(g, value);
}

/* Refuses parameters of other blocks: a block is saved and moved with its own
 * weights, gradients and moments. */
static bool is_param(struct vpipe_graph *g, int param)
{
    if (param < 0 || param >= g->graph->n_params) {
        vp_graph_refuse(g->graph,
                        "an operator is given a parameter that does not exist");
        return false;
    }
    if (g->graph->params[param].block == g->graph->n_blocks - 1)
        return true;
    vp_graph_refuse(g->graph, "an operator is given a parameter of another "
                              "block; use vpipe_tied()");
    return false;
}

static bool is_param_or_none(struct vpipe_graph *g, int param)
{
    return param == VPIPE_NONE || is_param(g, param);
}

static bool is_number(struct vpipe_graph *g, float number)
{
    if (isfinite(number))
        return true;
    vp_graph_refuse(g->graph, "an operator is given a number that is not "
                              "finite");
    return false;
}

/* Returns false after the first mistake, and if there is no block yet. */
static bool begin(struct vpipe_graph *g)
{
    if (!g || g->graph->status != VP_OK)
        return false;
    if (g->graph->n_blocks == 0) {
        vp_graph_refuse(g->graph, "an operator needs a block; begin one by "
                                  "vpipe_block()");
        return false;
    }
    return true;
}

/* Each operator below begins a line of its own (vp_graph_line()), the unit in
 * which recomputation is counted. */

/* ---- Blocks, inputs, parameters ------------------------------------------ */

void vpipe_block(struct vpipe_graph *graph, const char *name)
{
    if (!graph || graph->graph->status != VP_OK)
        return;
    if (!name || !name[0])
        vp_graph_refuse(graph->graph, "a block has no name");
    else
        vp_graph_block(graph->graph, name);
}

static enum vp_role role_of(enum vpipe_input input)
{
    static const enum vp_role roles[] = {
        [VPIPE_IDS] = VP_ROLE_TOKENS,
        [VPIPE_TYPES] = VP_ROLE_TYPES,
        [VPIPE_MASK] = VP_ROLE_MASK,
        [VPIPE_TARGET_IDS] = VP_ROLE_TARGET_TOKENS,
        [VPIPE_LABEL_ROWS] = VP_ROLE_LABEL_ROWS,
        [VPIPE_LABELS] = VP_ROLE_LABELS,
    };

    return (size_t)input < VP_COUNT_OF(roles) ? roles[input] : VP_ROLE_NONE;
}

int vpipe_input(struct vpipe_graph *graph, enum vpipe_input input)
{
    static const char *const names[VP_ROLE_COUNT] = {
        [VP_ROLE_TOKENS] = "ids",
        [VP_ROLE_TYPES] = "types",
        [VP_ROLE_MASK] = "mask",
        [VP_ROLE_TARGET_TOKENS] = "target_ids",
        [VP_ROLE_LABEL_ROWS] = "label_rows",
        [VP_ROLE_LABELS] = "labels",
    };
    enum vp_role role = role_of(input);
    int64_t rows;

    if (!begin(graph))
        return VPIPE_NONE;
    rows = vp_dims_role(graph->dims, role);
    if (role == VP_ROLE_NONE || rows < 1) {
        vp_graph_refuse(graph->graph, "an input that the shape of the model "
                                      "does not have");
        return VPIPE_NONE;
    }
    if (graph->inputs[role] == VP_NONE)
        graph->inputs[role] = vp_graph_input(graph->graph, role, names[role],
                                             rows);
    return graph->inputs[role];
}

static bool is_name_free(const struct vp_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_params; i++)
        if (strcmp(graph->params[i].part[0].name, name) == 0)
            return false;
    return true;
}

/* Returns true if the name can be that of a tensor in a checkpoint. */
static bool is_good_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    return name && name[0] && strlen(name) <= 128 &&
           !name[strspn(name, letters)];
}

int vpipe_param(struct vpipe_graph *graph, const char *name, int64_t rows,
                int64_t cols, enum vpipe_init init, float std)
{
    static const enum vp_init inits[] = {
        [VPIPE_ZERO] = VP_INIT_ZERO,
        [VPIPE_ONE] = VP_INIT_ONE,
        [VPIPE_NORMAL] = VP_INIT_NORMAL,
        [VPIPE_SINUSOID] = VP_INIT_SINUSOID,
    };
    int64_t n;

    if (!begin(graph) || !is_number(graph, std))
        return VPIPE_NONE;
    if (!is_good_name(name))
        vp_graph_refuse(graph->graph, "the name of a parameter must be 1 to "
                                      "128 letters, digits, '.', '_' or '-'");
    else if (!is_name_free(graph->graph, name))
        vp_graph_refuse(graph->graph, "two parameters have the same name");
    else if ((size_t)init >= VP_COUNT_OF(inits))
        vp_graph_refuse(graph->graph,
                        "a parameter has an unknown initial value");
    else if (rows < 1 || cols < 1 || !vp_mul_i64(rows, cols, &n) ||
             n > INT64_C(1) << 40)
        vp_graph_refuse(graph->graph,
                        "a parameter has no elements, or more than 2^40");
    else
        return vp_graph_param(graph->graph,
                              vp_graph_name(graph->graph, "%s", name), rows,
                              cols, inits[init], std);
    return VPIPE_NONE;
}

int vpipe_tied(struct vpipe_graph *graph, int param)
{
    if (!begin(graph))
        return VPIPE_NONE;
    if (param < 0 || param >= graph->graph->n_params) {
        vp_graph_refuse(graph->graph, "vpipe_tied() is given a parameter that "
                                      "does not exist");
        return VPIPE_NONE;
    }
    return vp_graph_tied(graph->graph, param);
}

/* ---- Operators ----------------------------------------------------------- */

int vpipe_embed(struct vpipe_graph *graph, int ids, int table, int positions,
                int types, int types_table)
{
    if (!begin(graph) || !is_value(graph, ids) || !is_param(graph, table) ||
        !is_param_or_none(graph, positions) ||
        !is_value_or_none(graph, types) ||
        !is_param_or_none(graph, types_table))
        return VPIPE_NONE;
    vp_graph_line(graph->graph);
    return vp_embed(graph->graph, ids, types, table, positions, types_table,
                    1.0f, -1);
}

int vpipe_linear(struct vpipe_graph *graph, int x, int weight, int bias,
                 enum vpipe_activation activation)
{
    static const enum vp_act acts[] = {
        [VPIPE_LINEAR] = VP_ACT_NONE,
        [VPIPE_RELU] = VP_ACT_RELU,
        [VPIPE_GELU] = VP_ACT_GELU_ERF,
        [VPIPE_GELU_TANH] = VP_ACT_GELU_TANH,
    };

    if (!begin(graph) || !is_value(graph, x) || !is_param(graph, weight) ||
        !is_param_or_none(graph, bias))
        return VPIPE_NONE;
    if ((size_t)activation >= VP_COUNT_OF(acts)) {
        vp_graph_refuse(graph->graph, "vpipe_linear() has no such activation");
        return VPIPE_NONE;
    }
    vp_graph_line(graph->graph);
    return vp_linear(graph->graph, x, weight, bias, acts[activation]);
}

int vpipe_layernorm(struct vpipe_graph *graph, int x, int gamma, int beta,
                    float eps)
{
    if (!begin(graph) || !is_value(graph, x) || !is_param(graph, gamma) ||
        !is_param(graph, beta) || !is_number(graph, eps))
        return VPIPE_NONE;
    if (eps <= 0.0f) {
        vp_graph_refuse(graph->graph, "eps of a layer norm must be above 0");
        return VPIPE_NONE;
    }
    vp_graph_line(graph->graph);
    return vp_layernorm(graph->graph, x, gamma, beta, eps);
}

int vpipe_attention(struct vpipe_graph *graph, int q, int kv, int mask,
                    int heads, int causal, float p)
{
    if (!begin(graph) || !is_value(graph, q) || !is_value_or_none(graph, kv) ||
        !is_value_or_none(graph, mask) || !is_number(graph, p))
        return VPIPE_NONE;
    vp_graph_line(graph->graph);
    return vp_attention(graph->graph, q, kv, mask, heads, causal != 0, p);
}

int vpipe_dropout(struct vpipe_graph *graph, int x, float p)
{
    if (!begin(graph) || !is_value(graph, x) || !is_number(graph, p))
        return VPIPE_NONE;
    vp_graph_line(graph->graph);
    return vp_dropout(graph->graph, x, p);
}

int vpipe_add(struct vpipe_graph *graph, int branch, int trunk)
{
    if (!begin(graph) || !is_value(graph, branch) || !is_value(graph, trunk))
        return VPIPE_NONE;
    vp_graph_line(graph->graph);
    return vp_add(graph->graph, branch, trunk);
}

int vpipe_scale(struct vpipe_graph *graph, int x, float factor)
{
    if (!begin(graph) || !is_value(graph, x) || !is_number(graph, factor))
        return VPIPE_NONE;
    vp_graph_line(graph->graph);
    return vp_scale(graph->graph, x, factor);
}

int vpipe_gather(struct vpipe_graph *graph, int x, int rows)
{
    if (!begin(graph) || !is_value(graph, x) || !is_value(graph, rows))
        return VPIPE_NONE;
    vp_graph_line(graph->graph);
    return vp_gather(graph->graph, x, rows);
}

int vpipe_cross_entropy(struct vpipe_graph *graph, int logits, int labels,
                        float smoothing)
{
    if (!begin(graph) || !is_value(graph, logits) || !is_value(graph, labels) ||
        !is_number(graph, smoothing))
        return VPIPE_NONE;
    if (smoothing < 0.0f || smoothing >= 1.0f) {
        vp_graph_refuse(graph->graph, "smoothing must be from 0 to below 1");
        return VPIPE_NONE;
    }
    vp_graph_line(graph->graph);
    return vp_cross_entropy(graph->graph, logits, labels, VP_NONE, smoothing);
}

/* ---- The model ----------------------------------------------------------- */

static void build(void *ctx, const struct vp_dims *dims, struct vp_graph *graph)
{
    struct vp_api_model *model = ctx;
    struct vpipe_graph g = { .graph = graph, .dims = dims };
    int code;

    for (int role = 0; role < VP_ROLE_COUNT; role++)
        g.inputs[role] = VP_NONE;
    code = model->build(model->ctx, &g);
    if (code == 0)
        return;
    model->code = code;
    vp_graph_refuse(graph, "the build callback returned an error");
}

enum vp_status vp_api_model_init(struct vp_api_model *model, struct vp_err *err)
{
    model->code = 0;
    model->custom.build = build;
    model->custom.ctx = model;
    return vp_model_custom_init(&model->custom, &model->model, &model->size,
                                err);
}
