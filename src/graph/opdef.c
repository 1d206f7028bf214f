/* The operator table: shape rules, operation counts, what backward reads. */
#include "graph/opdef.h"

#include "base/rng.h"

#include <math.h>

static enum vp_status refuse(struct vp_graph *graph, const struct vp_op *op,
                             const char *why)
{
    return graph->status = vp_err_set(
               &graph->err, VP_ERR_INVALID, "model graph, %s: %s: %s",
               graph->blocks[op->block].name, vp_op_defs[op->kind].name, why);
}

/* NULL for an absent tensor. */
static const struct vp_value *in_value(const struct vp_graph *graph,
                                       const struct vp_op *op, int i)
{
    return op->in[i] == VP_NONE ? NULL : &graph->values[op->in[i]];
}

static const struct vp_param *in_param(const struct vp_graph *graph,
                                       const struct vp_op *op, int i)
{
    return op->par[i] == VP_NONE ? NULL : &graph->params[op->par[i]];
}

/* A result of the operator that is being added. */
static vp_val typed_result(struct vp_graph *graph, const struct vp_op *op,
                           enum vp_dtype dtype, int64_t rows, int64_t cols)
{
    vp_val value = vp_graph_input(graph, VP_ROLE_NONE,
                                  vp_op_defs[op->kind].name, rows);

    if (value == VP_NONE)
        return VP_NONE;
    graph->values[value].dtype = dtype;
    graph->values[value].cols = cols;
    graph->values[value].producer = op->id;
    return value;
}

static vp_val result(struct vp_graph *graph, const struct vp_op *op,
                     int64_t rows, int64_t cols)
{
    return typed_result(graph, op, graph->dtype, rows, cols);
}

/* What must not be rounded: the loss, and what was found out about rows. */
static vp_val statistic(struct vp_graph *graph, const struct vp_op *op,
                        int64_t rows, int64_t cols)
{
    return typed_result(graph, op, VP_DTYPE_F32, rows, cols);
}

/* Sets attr.q_len from the rows of in0. */
static bool set_len(const struct vp_graph *graph, struct vp_op *op)
{
    int64_t rows = in_value(graph, op, 0)->whole_rows;

    op->attr.q_len = rows / graph->batch;
    return rows % graph->batch == 0;
}

static bool is_float(const struct vp_value *value)
{
    return value && value->dtype != VP_DTYPE_I32;
}

static bool is_ids(const struct vp_value *value, int64_t rows)
{
    return value && value->dtype == VP_DTYPE_I32 && value->rows == rows;
}

static bool is_row(const struct vp_param *param, int64_t cols)
{
    return param && param->rows == 1 && param->cols == cols;
}

/* Byte-quantised: something must be kept. */
static bool is_dropout(float p)
{
    return p >= 0.0f && p < 1.0f && vp_dropout_threshold(p) < 256;
}

static bool is_trained(const struct vp_graph *graph)
{
    return graph->outputs & VP_OUTPUT_LOSS;
}

static enum vp_status done(const struct vp_graph *graph)
{
    return graph->status;
}

/* How the result of the operator lies on the members of the group. */
static enum vp_status done_as(const struct vp_graph *graph,
                              const struct vp_op *op, enum vp_spread spread)
{
    for (int i = 0; i < VP_MAX_AUX; i++)
        if (op->aux[i] != VP_NONE)
            graph->values[op->aux[i]].spread = spread;
    if (op->out != VP_NONE)
        graph->values[op->out].spread = spread;
    return graph->status;
}

/* The same of a result that has the rows of an input: `whole` over all members. */
static enum vp_status done_rows(const struct vp_graph *graph,
                                const struct vp_op *op, enum vp_spread spread,
                                int64_t whole)
{
    for (int i = 0; i < VP_MAX_AUX; i++)
        if (op->aux[i] != VP_NONE)
            graph->values[op->aux[i]].whole_rows = whole;
    if (op->out != VP_NONE)
        graph->values[op->out].whole_rows = whole;
    return done_as(graph, op, spread);
}

static bool is_whole(const struct vp_value *value)
{
    return value->spread == VP_SPREAD_WHOLE;
}

/* A member has all columns of its rows, whose gradients are no parts. */
static bool has_own_rows(const struct vp_value *value)
{
    return is_whole(value) || value->spread == VP_SPREAD_ROWS;
}

/* A member has all rows of its columns, likewise. */
static bool has_own_cols(const struct vp_value *value)
{
    return is_whole(value) || value->spread == VP_SPREAD_COLS;
}

static bool is_cut(const struct vp_param *param)
{
    return param->slice.axis != VP_SLICE_NONE;
}

/* ---- Shape rules -------------------------------------------------------- */

static enum vp_status embed_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *ids = in_value(graph, op, 0);
    const struct vp_param *table = in_param(graph, op, 0);
    const struct vp_param *positions = in_param(graph, op, 1);
    const struct vp_param *types = in_param(graph, op, 2);

    if (!ids || ids->dtype != VP_DTYPE_I32 || !table)
        return refuse(graph, op, "needs ids and a table");
    if (!set_len(graph, op))
        return refuse(graph, op, "rows are not a multiple of the batch");
    if (op->in[2] != VP_NONE &&
        (!positions || !is_ids(in_value(graph, op, 2), ids->rows)))
        return refuse(graph, op, "given positions do not match the ids");
    if (op->in[2] != VP_NONE && is_trained(graph))
        return refuse(graph, op, "given positions are for a forward only");
    if (positions &&
        (positions->cols != table->cols || positions->rows < op->attr.q_len))
        return refuse(graph, op, "fewer positions than the sequence is long");
    if ((types != NULL) != (op->in[1] != VP_NONE) ||
        (types && (types->cols != table->cols ||
                   !is_ids(in_value(graph, op, 1), ids->rows))))
        return refuse(graph, op, "type ids and type table do not match");
    if (table->slice.axis == VP_SLICE_COLS ||
        (positions && is_cut(positions)) || (types && is_cut(types)))
        return refuse(graph, op, "only the rows of its table can be cut");
    op->out = result(graph, op, ids->rows, table->cols);
    return done_as(graph, op,
                   is_cut(table) ? VP_SPREAD_PARTIAL : VP_SPREAD_WHOLE);
}

/* From the weight and how x lies on the members; false: they do not match. */
static bool find_linear_spread(const struct vp_value *x,
                               const struct vp_param *weight,
                               const struct vp_param *bias, enum vp_spread *out)
{
    switch (weight->slice.axis) {
    case VP_SLICE_ROWS:
        *out = VP_SPREAD_COLS;
        return (is_whole(x) || x->spread == VP_SPREAD_GATHERED) &&
               (!bias || is_cut(bias));
    case VP_SLICE_COLS:
        *out = VP_SPREAD_PARTIAL;
        return x->spread == VP_SPREAD_COLS && !bias;
    default:
        *out = x->spread;
        return has_own_rows(x) && (!bias || !is_cut(bias));
    }
}

static enum vp_status linear_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *x = in_value(graph, op, 0);
    const struct vp_param *weight = in_param(graph, op, 0);
    const struct vp_param *bias = in_param(graph, op, 1);
    enum vp_spread spread;
    int64_t rows, cols, whole;

    if (!is_float(x) || !weight || weight->cols != x->cols)
        return refuse(graph, op, "weight does not fit the input");
    if (bias && bias->rows * bias->cols != weight->rows)
        return refuse(graph, op, "bias does not fit the weight");
    if (!find_linear_spread(x, weight, bias, &spread))
        return refuse(graph, op, "weight and input are not cut alike");
    if (spread == VP_SPREAD_PARTIAL && op->attr.act != VP_ACT_NONE)
        return refuse(graph, op, "an activation comes after the sum");
    rows = x->rows;
    whole = x->whole_rows;
    cols = weight->rows;
    op->out = result(graph, op, rows, cols);
    if (op->attr.act != VP_ACT_NONE)
        op->aux[0] = result(graph, op, rows, cols);
    return done_rows(graph, op, spread, whole);
}

static enum vp_status layernorm_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *x = in_value(graph, op, 0);
    int64_t rows, cols, whole;
    enum vp_spread spread;

    if (!is_float(x) || !is_row(in_param(graph, op, 0), x->cols) ||
        !is_row(in_param(graph, op, 1), x->cols))
        return refuse(graph, op, "gamma and beta do not fit the input");
    if (!has_own_rows(x))
        return refuse(graph, op, "needs whole rows");
    rows = x->rows;
    cols = x->cols;
    whole = x->whole_rows;
    spread = x->spread;
    op->out = result(graph, op, rows, cols);
    op->aux[0] = statistic(graph, op, rows, 2);
    return done_rows(graph, op, spread, whole);
}

static enum vp_status attention_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *q = in_value(graph, op, 0);
    const struct vp_value *kv = in_value(graph, op, 1);
    int64_t hidden, rows, k_rows;
    enum vp_spread spread;

    if (!is_float(q) || (kv && !is_float(kv)))
        return refuse(graph, op, "needs float inputs");
    rows = q->rows;
    hidden = kv ? q->cols : q->cols / 3;
    k_rows = kv ? kv->rows : rows;
    if (kv ? kv->cols != 2 * hidden : q->cols != 3 * hidden)
        return refuse(graph, op, "query, key and value do not match");
    if (!has_own_cols(q) || (kv && kv->spread != q->spread))
        return refuse(graph, op, "query, key and value are not cut alike");
    if (!is_dropout(op->attr.p))
        return refuse(graph, op, "the dropout probability is not in 0 .. 1");
    if (op->attr.causal && k_rows != rows)
        return refuse(graph, op, "a causal mask needs as many keys as queries");
    if (op->attr.heads < 1 || hidden % op->attr.heads != 0)
        return refuse(graph, op, "heads do not divide the hidden size");
    if (!set_len(graph, op) || k_rows % graph->batch != 0)
        return refuse(graph, op, "rows are not a multiple of the batch");
    if (op->in[2] != VP_NONE && !is_ids(in_value(graph, op, 2), k_rows))
        return refuse(graph, op, "key mask does not match the keys");
    op->attr.k_len = k_rows / graph->batch;
    op->attr.scale = (float)(1.0 / sqrt((double)(hidden / op->attr.heads)));
    spread = q->spread;
    op->out = result(graph, op, rows, hidden);
    op->aux[0] = statistic(graph, op, rows, op->attr.heads);
    return done_as(graph, op, spread);
}

static enum vp_status cached_attention_shape(struct vp_graph *graph,
                                             struct vp_op *op)
{
    const struct vp_value *qkv = in_value(graph, op, 0);
    const struct vp_value *lines = in_value(graph, op, 2);
    int64_t rows, hidden, dim;

    if (is_trained(graph))
        return refuse(graph, op, "a cache is for a forward only");
    if (!is_float(qkv) || qkv->cols % 3 != 0)
        return refuse(graph, op, "needs packed queries, keys and values");
    rows = qkv->rows;
    hidden = qkv->cols / 3;
    if (op->attr.heads < 1 || hidden % op->attr.heads != 0)
        return refuse(graph, op, "heads do not divide the hidden size");
    if (!set_len(graph, op) || !is_ids(in_value(graph, op, 1), rows))
        return refuse(graph, op, "positions do not match the rows");
    if (!lines || lines->dtype != VP_DTYPE_I32 ||
        lines->rows % graph->batch != 0 || op->attr.n_lines < 1)
        return refuse(graph, op, "lines do not match the batch");
    dim = hidden / op->attr.heads;
    op->attr.k_len = lines->rows / graph->batch;
    op->attr.scale = (float)(1.0 / sqrt((double)dim));
    op->out = result(graph, op, rows, hidden);
    op->aux[0] = result(
        graph, op, op->attr.n_lines * op->attr.heads * 2 * op->attr.k_len, dim);
    if (op->aux[0] != VP_NONE)
        graph->values[op->aux[0]].persists = true;
    return done(graph);
}

static enum vp_status cached_cross_attention_shape(struct vp_graph *graph,
                                                   struct vp_op *op)
{
    const struct vp_value *q = in_value(graph, op, 0);
    const struct vp_value *kv = in_value(graph, op, 1);
    int64_t rows, hidden, dim;

    if (is_trained(graph))
        return refuse(graph, op, "a cache is for a forward only");
    if (!is_float(q) || !is_float(kv) || kv->cols != 2 * q->cols)
        return refuse(graph, op, "needs queries, and packed keys and values");
    rows = q->rows;
    hidden = q->cols;
    if (op->attr.heads < 1 || hidden % op->attr.heads != 0)
        return refuse(graph, op, "heads do not divide the hidden size");
    if (!set_len(graph, op) || kv->rows % graph->batch != 0 ||
        kv->rows / graph->batch > op->attr.k_len)
        return refuse(graph, op, "rows do not match the batch or the cache");
    if (!is_ids(in_value(graph, op, 2), 3 * graph->batch) ||
        op->attr.n_lines < 1)
        return refuse(graph, op, "sources do not match the batch");
    dim = hidden / op->attr.heads;
    op->attr.scale = (float)(1.0 / sqrt((double)dim));
    op->out = result(graph, op, rows, hidden);
    op->aux[0] = result(
        graph, op, op->attr.n_lines * op->attr.heads * 2 * op->attr.k_len, dim);
    if (op->aux[0] != VP_NONE)
        graph->values[op->aux[0]].persists = true;
    return done(graph);
}

static enum vp_status same_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *x = in_value(graph, op, 0);
    enum vp_spread spread;
    int64_t whole;

    if (!is_float(x))
        return refuse(graph, op, "needs a float input");
    spread = x->spread;
    whole = x->whole_rows;
    op->out = result(graph, op, x->rows, x->cols);
    return done_rows(graph, op, spread, whole);
}

static enum vp_status dropout_shape(struct vp_graph *graph, struct vp_op *op)
{
    if (!is_float(in_value(graph, op, 0)) || !set_len(graph, op))
        return refuse(graph, op, "rows are not a multiple of the batch");
    if (!is_dropout(op->attr.p))
        return refuse(graph, op, "the dropout probability is not in 0 .. 1");
    if (in_value(graph, op, 0)->spread == VP_SPREAD_PARTIAL)
        return refuse(graph, op, "its input lacks the sum over the group");
    if (in_value(graph, op, 0)->spread == VP_SPREAD_GATHERED)
        return refuse(graph, op, "comes before the rows are gathered");
    return same_shape(graph, op);
}

static enum vp_status add_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *a = in_value(graph, op, 0);
    const struct vp_value *b = in_value(graph, op, 1);

    if (!is_float(a) || !is_float(b) || a->rows != b->rows ||
        a->cols != b->cols)
        return refuse(graph, op, "the inputs differ in shape");
    if (!has_own_rows(a) || a->spread != b->spread ||
        a->whole_rows != b->whole_rows)
        return refuse(graph, op, "needs whole rows, of the same slice");
    return same_shape(graph, op);
}

static enum vp_status gather_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *x = in_value(graph, op, 0);
    const struct vp_value *rows = in_value(graph, op, 1);
    enum vp_spread spread;

    if (!is_float(x) || !rows || rows->dtype != VP_DTYPE_I32)
        return refuse(graph, op, "needs a float input and row numbers");
    if (!has_own_rows(x))
        return refuse(graph, op, "needs whole rows");
    spread = is_whole(x) ? VP_SPREAD_WHOLE : VP_SPREAD_PARTIAL;
    op->out = result(graph, op, rows->rows, x->cols);
    return done_as(graph, op, spread);
}

/* A cut output layer may have more rows than there are ids. */
static int64_t count_ids(const struct vp_graph *graph,
                         const struct vp_value *logits)
{
    const struct vp_op *producer = logits->producer == VP_NONE
                                       ? NULL
                                       : &graph->ops[logits->producer];

    if (logits->spread != VP_SPREAD_COLS)
        return logits->cols;
    VP_BUG_ON(!producer || producer->kind != VP_OP_LINEAR);
    return in_param(graph, producer, 0)->slice.whole;
}

static enum vp_status cross_entropy_shape(struct vp_graph *graph,
                                          struct vp_op *op)
{
    const struct vp_value *logits = in_value(graph, op, 0);
    int64_t rows;

    if (!is_float(logits) || !is_ids(in_value(graph, op, 1), logits->rows))
        return refuse(graph, op, "labels do not match the logits");
    if (op->in[2] != VP_NONE && !is_ids(in_value(graph, op, 2), logits->rows))
        return refuse(graph, op, "weights do not match the logits");
    if (logits->spread == VP_SPREAD_PARTIAL)
        return refuse(graph, op, "its input lacks the sum over the group");
    if (!has_own_cols(logits))
        return refuse(graph, op, "needs all rows");
    rows = logits->rows;
    op->attr.n_ids = count_ids(graph, logits);
    op->out = statistic(graph, op, 1, VP_LOSS_COLS);
    op->aux[0] = statistic(graph, op, rows, 2);
    return done(graph);
}

static enum vp_status argmax_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *x = in_value(graph, op, 0);

    if (is_trained(graph))
        return refuse(graph, op, "is for a forward only");
    if (!is_float(x) || !is_whole(x))
        return refuse(graph, op, "needs a float input");
    op->out = typed_result(graph, op, VP_DTYPE_I32, x->rows, 1);
    return done(graph);
}

static enum vp_status group_sum_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *x = in_value(graph, op, 0);
    const struct vp_param *bias = in_param(graph, op, 0);

    if (!is_float(x) || x->spread != VP_SPREAD_PARTIAL)
        return refuse(graph, op, "its input is not a part of a sum");
    if (bias && (!is_row(bias, x->cols) || is_cut(bias)))
        return refuse(graph, op, "bias does not fit the input");
    op->out = result(graph, op, x->rows, x->cols);
    return done(graph);
}

/* Slices are of equal length: the last ones may end in padding. */
static int64_t slice_rows(const struct vp_graph *graph, int64_t rows)
{
    return (rows + graph->n_members - 1) / graph->n_members;
}

static enum vp_status reduce_scatter_shape(struct vp_graph *graph,
                                           struct vp_op *op)
{
    const struct vp_value *x = in_value(graph, op, 0);
    const struct vp_param *bias = in_param(graph, op, 0);
    int64_t whole;

    if (!is_float(x) || x->spread != VP_SPREAD_PARTIAL)
        return refuse(graph, op, "its input is not a part of a sum");
    if (bias && (!is_row(bias, x->cols) || is_cut(bias)))
        return refuse(graph, op, "bias does not fit the input");
    whole = x->rows;
    op->out = result(graph, op, slice_rows(graph, whole), x->cols);
    return done_rows(graph, op, VP_SPREAD_ROWS, whole);
}

static enum vp_status all_gather_shape(struct vp_graph *graph, struct vp_op *op)
{
    const struct vp_value *x = in_value(graph, op, 0);

    if (!is_float(x) || x->spread != VP_SPREAD_ROWS)
        return refuse(graph, op, "its input is not a slice of rows");
    op->out = result(graph, op, x->whole_rows, x->cols);
    return done_as(graph, op, VP_SPREAD_GATHERED);
}

/* ---- Operation counts --------------------------------------------------- */

static double linear_flops(const struct vp_graph *graph, const struct vp_op *op,
                           enum vp_phase phase)
{
    const struct vp_value *x = in_value(graph, op, 0);

    if (phase == VP_PHASE_B && !x->needs_grad)
        return 0.0;
    return 2.0 * (double)x->rows * (double)x->cols *
           (double)in_param(graph, op, 0)->rows;
}

/* Forward has two products, backward five (the scores are computed anew);
 * under a causal mask half of each. */
static double attention_flops(const struct vp_graph *graph,
                              const struct vp_op *op, enum vp_phase phase)
{
    double one = 2.0 * (double)op->attr.batch * (double)op->attr.q_len *
                 (double)op->attr.k_len * (double)graph->values[op->out].cols *
                 (op->attr.causal ? 0.5 : 1.0);

    switch (phase) {
    case VP_PHASE_F:
        return 2.0 * one;
    case VP_PHASE_B:
        return 5.0 * one;
    default:
        return 0.0;
    }
}

bool vp_op_has_dz(const struct vp_op *op)
{
    return op->kind == VP_OP_LINEAR && op->attr.act != VP_ACT_NONE;
}

bool vp_op_sums_gradient(const struct vp_graph *graph, const struct vp_op *op)
{
    return op->kind == VP_OP_LINEAR &&
           graph->params[op->par[0]].slice.axis == VP_SLICE_ROWS &&
           is_whole(in_value(graph, op, 0));
}

bool vp_op_can_recompute_out(const struct vp_op *op)
{
    return vp_op_defs[op->kind].b_recomputes_out && op->aux[0] != VP_NONE;
}

const struct vp_op_def vp_op_defs[VP_OP_KIND_COUNT] = {
    [VP_OP_EMBED] = {
        .name = "embed",
        .shape = embed_shape,
        .needs_w = VP_NEED_IN0 | VP_NEED_IN1,
        .has_w = true,
    },
    [VP_OP_LINEAR] = {
        .name = "linear",
        .shape = linear_shape,
        .flops = linear_flops,
        .needs_b = VP_NEED_AUX0,
        .needs_w = VP_NEED_IN0,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
        .has_w = true,
        .b_recomputes_out = true,
    },
    [VP_OP_LAYERNORM] = {
        .name = "layernorm",
        .shape = layernorm_shape,
        .needs_b = VP_NEED_IN0 | VP_NEED_AUX0,
        .needs_w = VP_NEED_IN0 | VP_NEED_AUX0,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
        .has_w = true,
        .b_recomputes_out = true,
    },
    [VP_OP_ATTENTION] = {
        .name = "attention",
        .shape = attention_shape,
        .flops = attention_flops,
        .needs_b = VP_NEED_IN0 | VP_NEED_IN1 | VP_NEED_IN2 | VP_NEED_OUT |
                   VP_NEED_AUX0,
        .grad_in = VP_NEED_IN0 | VP_NEED_IN1,
        .has_b = true,
    },
    [VP_OP_CACHED_ATTENTION] = {
        .name = "cached_attention",
        .shape = cached_attention_shape,
        .flops = attention_flops,
    },
    [VP_OP_CACHED_CROSS_ATTENTION] = {
        .name = "cached_cross_attention",
        .shape = cached_cross_attention_shape,
        .flops = attention_flops,
    },
    [VP_OP_DROPOUT] = {
        .name = "dropout",
        .shape = dropout_shape,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
    },
    [VP_OP_ADD] = {
        .name = "add",
        .shape = add_shape,
        .grad_in = VP_NEED_IN0 | VP_NEED_IN1,
        .passes_grad = true,
    },
    [VP_OP_SCALE] = {
        .name = "scale",
        .shape = same_shape,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
    },
    [VP_OP_GATHER] = {
        .name = "gather",
        .shape = gather_shape,
        .needs_b = VP_NEED_IN1,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
    },
    [VP_OP_CROSS_ENTROPY] = {
        .name = "cross_entropy",
        .shape = cross_entropy_shape,
        .needs_b = VP_NEED_IN0 | VP_NEED_IN1 | VP_NEED_IN2 | VP_NEED_AUX0,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
        .b_overwrites_in0 = true,
    },
    [VP_OP_ARGMAX] = {
        .name = "argmax",
        .shape = argmax_shape,
    },
    [VP_OP_COPY] = {
        .name = "copy",
        .shape = same_shape,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
    },
    [VP_OP_GROUP_SUM] = {
        .name = "group_sum",
        .shape = group_sum_shape,
        .grad_in = VP_NEED_IN0,
        .passes_grad = true,
        .has_w = true,
    },
    [VP_OP_GROUP_COPY] = {
        .name = "group_copy",
        .shape = same_shape,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
    },
    [VP_OP_REDUCE_SCATTER] = {
        .name = "reduce_scatter",
        .shape = reduce_scatter_shape,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
        .has_w = true,
        .runs_alone = true,
    },
    [VP_OP_ALL_GATHER] = {
        .name = "all_gather",
        .shape = all_gather_shape,
        .grad_in = VP_NEED_IN0,
        .has_b = true,
        .runs_alone = true,
        .made_again = true,
    },
};
